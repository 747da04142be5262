// Captions for OBS or a projector: steady lines on nothing. Style comes from the URL:
// lines, size (vh), font, colour, position (top, middle, bottom), align, uppercase=1, tail=0, cea608=1,
// stay (seconds that text stays when nothing more is said; 0: until there is more).

import { folded } from "./cea608.js";
import { asked, follow } from "./follow.js";

const { id, query } = asked();
const box = document.getElementById("box");
const is608 = query.get("cea608") === "1"; // 32 columns of a fixed width, and only their characters
const COLUMNS = 32;
const count = Math.min(Math.max(Number(query.get("lines")) || 2, 1), is608 ? 4 : 8);
const shows = query.get("tail") !== "0";

const size = Number(query.get("size"));
if (size > 0) box.style.setProperty("--size", `${Math.min(size, 50)}vh`);
if (query.get("font")) box.style.fontFamily = query.get("font");
const colour = query.get("color") ?? query.get("colour");
if (colour) box.style.color = colour;
if (["left", "center", "right"].includes(query.get("align"))) {
  box.style.textAlign = query.get("align");
}
if (["top", "middle"].includes(query.get("position"))) box.classList.add(query.get("position"));
box.classList.toggle("uppercase", query.get("uppercase") === "1");
box.classList.toggle("plain", is608);

const rows = Array.from({ length: count }, () => {
  const row = document.createElement("div");
  const said = document.createElement("span");
  const open = document.createElement("span");
  open.className = "open";
  row.append(said, open);
  row.dir = "auto";
  box.append(row);
  return { said, open };
});
const ruler = document.createElement("canvas").getContext("2d");

/** How much of a line a text takes, from 0 to 1. */
function share(text) {
  if (is608) return text.length / COLUMNS;
  const style = getComputedStyle(box);
  ruler.font = style.font;
  const shown = query.get("uppercase") === "1" ? text.toUpperCase() : text;
  return ruler.measureText(shown).width / box.clientWidth;
}

/** Words -> lines that are full: what comes later never moves what is there. */
function wrap(words) {
  const lines = [[]];
  for (const word of words) {
    const line = lines.at(-1);
    if (line.length && share(joined([...line, word])) > 1) lines.push([word]);
    else line.push(word);
  }
  return lines;
}

function joined(words) {
  return words.map(({ text, space }, n) => (n && space ? ` ${text}` : text)).join("");
}

const MOST = 400; // words that are kept to fill the lines
const STAY = Number(query.get("stay") ?? 7) * 1000; // ms
const LAST = 2000; // ms that the last words of a session can be read, at least
let done = []; // words that stay
let first = 0; // words before this one have left the lines, and the break after them stays
let newest = ""; // what was said last, and may still change
let changed = 0; // ms: when that was
let timer = null;

function show(said, tail) {
  const words = [
    ...done.slice(first),
    ...split(said),
    ...(shows ? split(tail).map((word) => ({ ...word, open: true })) : []),
  ];
  const lines = wrap(words);
  const shown = lines.slice(-count);
  rows.forEach((row, n) => {
    const line = shown[n] ?? [];
    const from = line.findIndex((word) => word.open);
    const stays = from < 0 ? line : line.slice(0, from);
    const opens = from < 0 ? [] : line.slice(from);
    row.said.textContent = joined(stays);
    row.open.textContent = (stays.length && opens[0]?.space ? " " : "") + joined(opens);
  });
  changed = performance.now();
  goes(STAY || Infinity);
}

/** Text that nothing follows goes after so many ms. */
function goes(after) {
  clearTimeout(timer);
  if (after === Infinity) return;
  timer = setTimeout(() => {
    done = [];
    first = 0;
    for (const { said, open } of rows) said.textContent = open.textContent = "";
  }, after);
}

/** Words of a final line are settled: whole lines that have scrolled out are forgotten. */
function settle(words) {
  done.push(...words);
  const lines = wrap(done.slice(first));
  for (const line of lines.slice(0, -count)) first += line.length;
  if (first > MOST) {
    done = done.slice(first);
    first = 0;
  }
}

const UNSPACED = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]/u;
const CLOSING = /^[^\p{L}\p{N}]+$/u; // punctuation stays with the word before it
const segments = window.Intl?.Segmenter && new Intl.Segmenter(undefined, { granularity: "word" });
const letters = window.Intl?.Segmenter && new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Text -> {text, space}: stretches that stay on one line, and whether a space stands before them. */
function split(text, isFinal = false) {
  const words = text.split(/\s+/).filter(Boolean);
  const shown = is608 ? words.map((word) => plain(word, isFinal)).filter(Boolean) : words;
  return shown.flatMap((word) => parts(word).map((part, n) => ({ text: part, space: n === 0 })));
}

/** A word -> where a line may break in it: scripts without spaces, and what fits on no line. */
function parts(word) {
  let found = [word];
  if (UNSPACED.test(word) && segments) {
    found = [];
    for (const { segment } of segments.segment(word)) {
      if (found.length && CLOSING.test(segment)) found[found.length - 1] += segment;
      else found.push(segment);
    }
  }
  return found.flatMap((part) => (share(part) > 1 ? cut(part) : [part]));
}

function cut(part) {
  const found = [""];
  for (const one of letters ? [...letters.segment(part)].map((one) => one.segment) : part) {
    if (found.at(-1) && share(found.at(-1) + one) > 1) found.push(one);
    else found[found.length - 1] += one;
  }
  return found;
}

let isTold = false; // that there are letters which CEA-608 has not

function plain(word, isFinal) {
  const shown = folded(word);
  if (shown !== null || isTold || !isFinal) return shown;
  isTold = true;
  return "[letters that CEA-608 lacks]";
}

follow(id, query.get("token"), {
  line: (message) => {
    const words = split(message.text, true);
    if (!words.length && !newest) return;
    settle(words);
    newest = "";
    show("", "");
  },
  gap: () => {},
  tail: (message) => {
    const said = `${message.text}\n${message.tail}`;
    if (said === newest) return; // whoever pauses is told of again and again
    newest = said;
    show(message.text, message.tail);
  },
  end: () => goes(Math.max(changed + LAST - performance.now(), 0)),
  state: () => {},
});
