// Past captions: listed, searched, read, taken away and deleted. Only where the server keeps them.

import { save } from "./comfort.js";
import { server } from "./root.js";
import { clock } from "./transcript.js";

const FORMS = ["txt", "srt", "vtt", "json"];
const PAUSE = 200; // ms without typing before it is looked for

const at = (id) => document.getElementById(id);
const when = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
let asked = 0; // what is answered after another question is of no use
let timer = null;

/** A request with the key that is on the page. */
function ask(path, method = "GET") {
  const key = at("key").value;
  return fetch(server(path), { method, headers: key ? { Authorization: `Bearer ${key}` } : {} });
}

function tell(text) {
  at("past-status").textContent = text;
}

function element(name, text, to = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  return Object.assign(made, to);
}

function button(text, label, act) {
  const made = element("button", text, { type: "button" });
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

/** The button is there if the server has a history, and this page may see it. */
async function offer() {
  const answer = await ask("v1/captions?limit=1").catch(() => null);
  at("past-open").hidden = !(answer?.ok && (await answer.json()).kept);
}

/** Sessions in which the words are said; those after the last one that is shown, or from the first. */
async function list(isMore) {
  const turn = ++asked;
  const query = new URLSearchParams({ q: at("past-query").value, limit: "20" });
  if (isMore) query.set("after", at("past-list").lastElementChild.dataset.id);
  const answer = await ask(`v1/captions?${query}`).catch(() => null);
  if (turn !== asked) return;
  if (!answer?.ok) {
    tell("The history can't be read now. Try again in a moment.");
    return;
  }
  const { data, has_more: hasMore } = await answer.json();
  if (turn !== asked) return;
  if (!isMore) at("past-list").replaceChildren();
  at("past-list").append(...data.map(row));
  at("past-more").hidden = !hasMore;
  count();
}

function count() {
  const shown = at("past-list").childElementCount;
  const none = at("past-query").value ? "Nothing was found." : "The history is empty: nothing was captioned yet.";
  tell(shown === 0 ? none : shown === 1 ? "1 session" : `${shown} sessions`);
}

function row(one) {
  const item = document.createElement("li");
  item.dataset.id = one.id;
  const began = when.format(new Date(one.created * 1000));
  const name = `${began}${one.ended === null ? " (going on)" : ""}`;
  item.append(element("h3", name));
  if (!one.matches) item.append(element("p", one.preview, { dir: "auto" }));
  for (const match of one.matches ?? []) {
    const line = element("p", ` ${match.text}`, { className: "match", dir: "auto" });
    line.prepend(element("time", clock(match.start_ms), { dir: "ltr" }));
    item.append(line);
  }
  const path = `v1/captions/${encodeURIComponent(one.id)}`;
  const text = element("pre", "", { hidden: true, tabIndex: 0, dir: "auto" });
  text.setAttribute("aria-label", `Captions of ${began}`);
  item.append(
    button("Read", `Read ${began}`, () => read(path, text)),
    ...FORMS.map((form) => button(form, `Download ${began} as ${form}`, () => take(path, form))),
    button("Delete", `Delete ${began}`, () => remove(path, item, began)),
    text,
  );
  return item;
}

async function read(path, text) {
  text.hidden = !text.hidden;
  if (text.hidden) return;
  const answer = await ask(`${path}.txt`).catch(() => null);
  if (answer?.ok) text.textContent = await answer.text();
  else tell("These captions are not there any more.");
}

async function take(path, form) {
  const answer = await ask(`${path}.${form}`).catch(() => null);
  if (answer?.ok) save(await answer.blob(), `captions.${form}`);
  else tell("These captions are not there any more.");
}

async function remove(path, item, began) {
  if (!window.confirm(`Delete the captions of ${began} for good?`)) return;
  const answer = await ask(path, "DELETE").catch(() => null);
  if (!answer?.ok && answer?.status !== 404) {
    tell("They could not be deleted now. Try again in a moment.");
    return;
  }
  const next = item.nextElementSibling ?? item.previousElementSibling;
  item.remove();
  count();
  (next?.querySelector("button") ?? at("past-query")).focus();
}

at("past-open").addEventListener("click", () => {
  at("past").showModal();
  list(false);
});
at("past-close").addEventListener("click", () => at("past").close());
at("past-more").addEventListener("click", () => list(true));
at("past-query").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => list(false), PAUSE);
});
at("past").addEventListener("keydown", (event) => event.stopPropagation()); // not the page's keys
at("key").addEventListener("change", offer);
offer();
