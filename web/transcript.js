// Lines on the page: appended once and never touched again, with the tail below them.

const NEAR = 40; // pixels from the end that still count as being there
const MOVING = 1500; // ms for which a log that was pushed may go on
const UPWARDS = new Set(["ArrowUp", "PageUp", "Home"]); // keys that scroll, as does Shift with Space

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
    this.moved = -MOVING; // ms: when the reader last had a hand on it
    this.isHeld = false; // by its scroll bar, as far as can be known
    this.log.addEventListener("scroll", () => this.look());
    this.more.addEventListener("click", () => this.toEnd());
    const move = () => {
      this.moved = performance.now();
    };
    for (const kind of ["wheel", "touchmove"]) this.log.addEventListener(kind, move, { passive: true });
    document.addEventListener("keydown", ({ key, shiftKey }) => {
      if (UPWARDS.has(key) || (key === " " && shiftKey)) move();
    });
    this.log.addEventListener("pointerdown", ({ pointerType }) => {
      this.isHeld = pointerType === "mouse";
    });
    window.addEventListener("pointerup", () => {
      if (this.isHeld) move();
      this.isHeld = false;
    });
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

  /** Only a reader's own hand ends following. Rows of several lines, a tail that comes and goes and
   * a turned phone move the log, too, and its end away from it.
   */
  look() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    const isByHand = this.isHeld || performance.now() - this.moved < MOVING;
    if (scrollHeight - scrollTop - clientHeight < NEAR) this.isAtEnd = true;
    else if (scrollTop < this.top && isByHand) this.isAtEnd = false;
    else if (this.isAtEnd) this.log.scrollTop = scrollHeight;
    this.top = this.log.scrollTop;
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
