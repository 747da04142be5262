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
    this.said = document.querySelector("#tail .said");
    this.open = document.querySelector("#tail .open");
    this.lines = [];
    this.unseen = 0;
    this.isAtEnd = true;
    this.log.addEventListener("scroll", () => this.look());
    this.more.addEventListener("click", () => this.toEnd());
  }

  /** A final line: {start_ms, text}. */
  add(line) {
    this.lines.push(line);
    const time = document.createElement("time");
    time.textContent = clock(line.start_ms);
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
    if (language) row.lang = language;
    const follows = this.isAtEnd;
    this.log.append(row);
    if (follows) {
      this.log.scrollTop = this.log.scrollHeight;
    } else {
      this.unseen += 1;
      this.more.textContent = `${this.unseen} new ${this.unseen === 1 ? "line" : "lines"}`;
      this.more.hidden = false;
    }
    return row;
  }

  /** What is said for good of the line under way, and what may still change. */
  tail(said, open) {
    this.said.textContent = said;
    this.open.textContent = open;
  }

  look() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    this.isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR;
    if (this.isAtEnd) {
      this.unseen = 0;
      this.more.hidden = true;
    }
  }

  toEnd() {
    this.log.scrollTop = this.log.scrollHeight;
    this.look();
  }

  get text() {
    return this.lines.map((line) => line.text).join("\n");
  }
}
