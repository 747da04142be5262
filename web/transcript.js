// Lines on the page: appended once and never touched again, with the tail below them.

const NEAR = 40; // pixels from the end that still count as being there

/** Milliseconds -> h:mm:ss. */
export function clock(ms) {
  const seconds = Math.floor(ms / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const rest = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return seconds >= 3600 ? `${Math.floor(seconds / 3600)}:${rest}` : rest;
}

export class Transcript {
  constructor() {
    this.log = document.getElementById("log");
    this.more = document.getElementById("more");
    this.below = document.getElementById("tail");
    this.said = document.querySelector("#tail .said");
    this.open = document.querySelector("#tail .open");
    this.lines = [];
    this.unseen = 0;
    this.isAtEnd = true; // the newest line is followed, until the reader scrolls up
    this.top = 0; // where the log stood when it was last looked at
    this.log.addEventListener("scroll", () => this.look());
    this.more.addEventListener("click", () => this.toEnd());
    // A tail that takes another row, a larger letter or a turned phone leaves the log less room.
    const sizes = new ResizeObserver(() => this.isAtEnd && this.toEnd());
    for (const one of [this.log, this.below]) sizes.observe(one);
  }

  /** A final line: {start_ms, text}. */
  add(line) {
    this.lines.push(line);
    const time = document.createElement("time");
    time.textContent = clock(line.start_ms);
    time.dir = "ltr";
    this.append([time, line.text], line.language);
  }

  /** Something that is missing, or that the reader should know. */
  note(text) {
    const row = this.append([text]);
    row.className = "gap";
  }

  append(parts, language) {
    const row = document.createElement("p");
    row.append(...parts);
    row.dir = "auto"; // Arabic and Hebrew run from the right, whatever the page's own language
    if (language) row.lang = language;
    this.log.append(row);
    if (this.isAtEnd) {
      this.toEnd();
    } else {
      this.unseen += 1;
      this.more.textContent = `${this.unseen} new ${this.unseen === 1 ? "line" : "lines"}`;
      this.more.hidden = false;
    }
    return row;
  }

  /** Nothing is left. */
  clear() {
    this.lines = [];
    this.log.replaceChildren();
    this.tail("", "");
    this.toEnd();
  }

  /** What is said for good of the line under way, and what may still change. */
  tail(said, open) {
    this.said.textContent = said;
    this.open.textContent = open;
    this.below.scrollTop = this.below.scrollHeight;
  }

  /** Only a reader moves the log up: where lines come faster than events, its end is further away
   * than it was, and that is no reason to stay behind.
   */
  look() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    const isNear = scrollHeight - scrollTop - clientHeight < NEAR;
    if (isNear || scrollTop < this.top) this.isAtEnd = isNear;
    this.top = scrollTop;
    if (this.isAtEnd) {
      this.unseen = 0;
      this.more.hidden = true;
    }
  }

  toEnd() {
    this.isAtEnd = true;
    this.log.scrollTop = this.log.scrollHeight;
    this.look();
  }

  get text() {
    return this.lines.map((line) => line.text).join("\n");
  }
}
