// Captions for OBS or a projector: steady lines on nothing. Style comes from the URL:
// lines, size (vh), font, colour, position (top, middle, bottom), align, uppercase=1, tail=0, cea608=1.

import { asked, follow } from "/web/follow.js";

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
    const text = [...line, word].map((one) => one.text).join(" ");
    if (line.length && share(text) > 1) lines.push([word]);
    else line.push(word);
  }
  return lines;
}

const MOST = 400; // words that are kept to fill the lines
let done = []; // words that stay
let first = 0; // words before this one have left the lines, and the break after them stays

function show(said, tail) {
  const words = [
    ...done.slice(first),
    ...split(said).map((text) => ({ text })),
    ...(shows ? split(tail).map((text) => ({ text, open: true })) : []),
  ];
  const lines = wrap(words);
  const shown = lines.slice(-count);
  rows.forEach((row, n) => {
    const line = shown[n] ?? [];
    const stays = line.filter((word) => !word.open).map((word) => word.text);
    const opens = line.filter((word) => word.open).map((word) => word.text);
    row.said.textContent = stays.join(" ");
    row.open.textContent = (stays.length && opens.length ? " " : "") + opens.join(" ");
  });
}

/** Words of a final line are settled: whole lines that have scrolled out are forgotten. */
function settle(text) {
  done.push(...split(text).map((word) => ({ text: word })));
  const lines = wrap(done.slice(first));
  for (const line of lines.slice(0, -count)) first += line.length;
  if (first > MOST) {
    done = done.slice(first);
    first = 0;
  }
}

function split(text) {
  const clean = is608 ? text.normalize("NFC").replace(/[^\x20-\x7e\u00a1-\u00ff]/g, "") : text;
  return clean.split(/\s+/).filter(Boolean);
}

follow(id, query.get("token"), {
  line: (message) => {
    settle(message.text);
    show("", "");
  },
  gap: () => {},
  tail: (message) => show(message.text, message.tail),
  end: () => show("", ""),
  state: () => {},
});
