// The caption page: one click to captions, links for others, and files.

import { Awake } from "./awake.js";
import { devices, microphone, tab, told } from "./capture.js";
import { comfort, keep, kept, put, save } from "./comfort.js";
import { written } from "./documents.js";
import { dropped, shortcuts } from "./hands.js";
import { putRest, takeRest } from "./rest.js";
import { server } from "./root.js";
import { Session } from "./session.js";
import { askForLinks, deleteTalk, showLinks, staying } from "./share.js";
import { Transcript } from "./transcript.js";
import { upload } from "./upload.js";

const at = (id) => document.getElementById(id);
const transcript = new Transcript();
const ways = comfort(transcript);
const query = new URLSearchParams(location.search);
let session = null;
let talk = null; // by which the server knows what is said, see `Session`
let isWhole = true; // it has all lines that are on the page
const awake = new Awake();
let isMuted = false; // the system has taken the sound away
let clock = 0; // ms recorded by all sessions of this page

function status(text) {
  at("status").textContent = text;
}

function problem(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
}

function auth() {
  return at("key").value ? { Authorization: `Bearer ${at("key").value}` } : {};
}

// Where no key is asked for, this shows other machines' speakers.
function speaks() {
  return talk?.key ? { ...auth(), "Livecap-Captions-Key": talk.key } : auth();
}

// What is said stays through a reload.
const STORE = "livecap.lines";
const TALK = "livecap.talk";
for (const line of JSON.parse(sessionStorage.getItem(STORE) ?? "[]")) transcript.add(line);

const on = {
  line: (line) => {
    transcript.add(line);
    sessionStorage.setItem(STORE, JSON.stringify(transcript.lines));
  },
  tail: (said, open) => transcript.tail(said, open),
  gap: (from, to, reason) => transcript.note(`[${Math.round((to - from) / 1000)} s: ${reason}]`),
  status,
  problem,
  lag: (ms) => status(`Listening by ${session?.wire?.kind} · ${(ms / 1000).toFixed(1)} s behind`),
  level: (level) => {
    at("level").value = level;
  },
  key: () => askForKey(at("key").value ? "This key is not the right one" : "This server needs a key"),
  talk: (found) => {
    const isNew = found.id !== talk?.id;
    talk = found;
    sessionStorage.setItem(TALK, JSON.stringify(talk));
    for (const one of ["share", "delete"]) at(one).disabled = false;
    if (!isNew) return;
    isWhole = !transcript.lines.length;
    if (at("links").childElementCount) renew();
  },
  ended: () => {
    clock = session.now;
    session = null;
    at("start").textContent = "Start";
    at("level").value = 0;
    awake.drop();
    muted(false);
    status("Stopped.");
  },
};

/** Phones give the sound to a call, and keyboards have a key for it: then silence comes. */
function muted(is) {
  if (is) problem(told({ name: "Muted" }));
  else if (isMuted) problem("");
  isMuted = is;
}

async function begin(open) {
  problem("");
  let stream;
  try {
    stream = await open();
  } catch (error) {
    problem(told(error));
    return;
  }
  at("start").textContent = "Stop";
  for (const track of stream.getAudioTracks()) {
    track.addEventListener("ended", () => {
      problem(told({ name: "CaptureEnded" }));
      session?.stop();
    });
    track.addEventListener("mute", () => muted(true));
    track.addEventListener("unmute", () => muted(false));
    if (track.muted) muted(true);
  }
  await list();
  session = new Session(stream, options(), on, { first: clock, talk });
  try {
    await session.start();
    if (session) awake.hold();
  } catch (error) {
    problem(`${error.message}. Check that the server runs; then press Start.`);
    session?.recorder?.stop();
    on.ended();
  }
}

function options() {
  return {
    key: at("key").value,
    language: at("language").value,
    model: at("model").value,
    socketOnly: query.get("transport") === "websocket",
  };
}

/** Caption what was under way when the page was left. */
async function recover() {
  const rest = takeRest();
  talk = JSON.parse(sessionStorage.getItem(TALK));
  for (const one of ["share", "delete"]) at(one).disabled = !talk;
  clock = transcript.lines.at(-1)?.end_ms ?? 0;
  if (!rest) return;
  at("start").disabled = true;
  session = new Session(null, options(), on, { ...rest, talk });
  try {
    await session.start();
    await session.stop();
  } catch (error) {
    on.gap(rest.first, session.now, `not captioned before the reload, ${error.message}`);
    on.ended();
  }
  at("start").disabled = false;
  status("The page was loaded anew. All that had been said is here; press Start to go on.");
}

async function toggle() {
  if (session) await session.stop();
  else await begin(() => microphone(at("device").value, at("mode").value));
}

async function list() {
  const chosen = at("device").value || kept("device", "");
  const found = await devices();
  at("device").replaceChildren(
    new Option("Default", ""),
    ...found
      .filter((one) => one.deviceId && one.deviceId !== "default")
      .map((one, n) => new Option(one.label || `Microphone ${n + 1}`, one.deviceId)),
  );
  if (found.some((one) => one.deviceId === chosen)) at("device").value = chosen;
}

async function share() {
  const found = await askForLinks(talk.id, speaks());
  if (found.url) showLinks(at("links"), found, status);
  else if (found.status === 401) on.key();
  else problem("No link could be made now. Try again in a moment.");
}

/** All of the talk, on the server and here; what is being said goes on as another one. */
async function remove() {
  if (!window.confirm("Delete this talk for good, on the server and on this page?")) return;
  if (session) await session.stop();
  if (talk && !(await deleteTalk(talk.id, speaks()))) {
    problem("It could not be deleted now. Try again in a moment.");
    return;
  }
  talk = null;
  isWhole = true;
  clock = 0;
  transcript.clear();
  at("links").replaceChildren();
  for (const one of [STORE, TALK]) sessionStorage.removeItem(one);
  for (const one of ["share", "delete"]) at(one).disabled = true;
  problem("");
  status("Deleted, here and on the server.");
}

/** The server has forgotten what was said before: readers need another link. */
async function renew() {
  await share();
  problem("The server does not know the old links any more: pass the new ones on.");
}

async function download() {
  const form = at("form").value;
  const asks = talk && isWhole && fetch(server(`v1/captions/${talk.id}.${form}`), { headers: speaks() });
  const answer = await asks;
  const blob = answer?.ok ? await answer.blob() : written(transcript.lines, form);
  save(blob, `captions.${form}`);
}

async function copy() {
  await put(transcript.text);
  status("Copied.");
}

async function file(chosen) {
  problem("");
  at("progress").hidden = false;
  try {
    const found = await upload(chosen, { headers: auth(), model: at("model").value, onProgress: (part) => {
      at("progress").value = part;
    } });
    transcript.note(`[${chosen.name}]`);
    for (const one of found.segments) {
      isWhole = false;
      on.line({ start_ms: one.start * 1000, end_ms: one.end * 1000, text: one.text.trim() });
    }
  } catch (error) {
    problem(error.message);
  } finally {
    at("progress").hidden = true;
  }
}

shortcuts({
  " ": toggle,
  "+": ways.larger,
  "=": ways.larger,
  "-": ways.smaller,
  t: ways.nextTheme,
  c: copy,
  d: download,
  End: () => transcript.toEnd(),
});
dropped(file);

at("start").addEventListener("click", toggle);
at("tab").addEventListener("click", () => !session && begin(tab));
at("tab").hidden = !navigator.mediaDevices?.getDisplayMedia;
at("share").addEventListener("click", () => {
  if (at("links").childElementCount) at("links").replaceChildren(); // they take room of the captions
  else share();
});
at("share").disabled = true;
at("delete").addEventListener("click", remove);
at("delete").disabled = true;
at("copy").addEventListener("click", copy);
at("download").addEventListener("click", download);
at("file").addEventListener("change", ({ target }) => target.files[0] && file(target.files[0]));
at("key").addEventListener("change", keyTyped);
at("device").addEventListener("change", () => keep("device", at("device").value));
for (const name of ["mode", "language"]) {
  at(name).addEventListener("change", () => keep(name, at(name).value));
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && session) session.recorder.context?.resume();
});
navigator.mediaDevices?.addEventListener?.("devicechange", list);
window.addEventListener("pagehide", () => {
  if (!session) return;
  putRest(session.rest);
  session.wire?.leave();
});

/** Over plain http from another machine there is no microphone: the way to one, and no dead button. */
function plain() {
  const url = `https://${location.host}${location.pathname}`;
  at("secure").href = url;
  at("secure").textContent = url;
  at("plain").hidden = false;
  for (const one of document.querySelectorAll(".sound")) one.hidden = true;
}

/** What can be chosen; where a key is asked for, nothing until the right one is there. */
async function models() {
  const answer = await fetch(server("v1/models"), { headers: auth() });
  const found = answer.ok ? (await answer.json()).data : [];
  at("model").replaceChildren(
    new Option("Default", ""),
    ...found.map((one) => new Option(one.id, one.id)),
  );
  if (answer.status === 401) {
    on.key();
    status("");
  } else {
    at("stays").textContent = await staying(auth());
    status(window.isSecureContext ? "Ready." : "Files can be captioned here all the same.");
  }
}

function askForKey(why) {
  at("settings").open = true;
  problem(`${why}: ask whoever runs the server, and type it into the field "Key".`);
  at("key").focus();
}

async function keyTyped() {
  problem("");
  if (session) session.key = at("key").value;
  else await models();
}

async function prepare() {
  const wide = matchMedia("(min-width: 40rem)"); // as in style.css
  const fold = () => {
    at("settings").open = wide.matches;
  };
  wide.addEventListener("change", fold);
  fold();
  if (!window.isSecureContext) plain();
  await list();
  at("mode").value = kept("mode", "room");
  const names = new Intl.DisplayNames([navigator.language], { type: "language" });
  const codes = "en zh es fr de ar ru ja ko pt it nl tr pl sv da fi id vi th hi fa cs el hu ro uk he";
  at("language").replaceChildren(
    new Option("Detect", ""),
    ...codes.split(" ").map((code) => new Option(names.of(code), code)),
  );
  at("language").value = kept("language", "");
  await models();
  await recover();
}

prepare();
