// The screen stays on for as long as there is something to follow, where the browser lets it.

export class Awake {
  constructor() {
    this.lock = null;
    this.isWanted = false;
    document.addEventListener("visibilitychange", () => this.take());
  }

  /** From now on. Browsers take the lock away when the page is hidden: it is asked for again. */
  hold() {
    this.isWanted = true;
    return this.take();
  }

  /** No more. */
  drop() {
    this.isWanted = false;
    this.lock?.release();
    this.lock = null;
  }

  async take() {
    if (!this.isWanted || document.hidden || (this.lock && !this.lock.released)) return;
    const lock = await navigator.wakeLock?.request("screen").catch(() => null);
    if (this.isWanted) this.lock = lock ?? null;
    else lock?.release();
  }
}
