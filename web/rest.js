// What had been recorded and not yet captioned when the page was left: captioned after a reload.

import { MS } from "./session.js";

const STORE = "livecap.rest";

/** Keep {first, pieces}, see `Session.rest`. */
export function putRest({ first, pieces }) {
  const all = new Uint8Array(pieces.reduce((bytes, pcm) => bytes + pcm.byteLength, 0));
  let at = 0;
  for (const pcm of pieces) {
    all.set(new Uint8Array(pcm.buffer), at);
    at += pcm.byteLength;
  }
  let text = "";
  for (let n = 0; n < all.length; n += 8192) {
    text += String.fromCharCode(...all.subarray(n, n + 8192));
  }
  sessionStorage.setItem(STORE, JSON.stringify({ first, pcm: btoa(text) }));
}

/** What was kept, once; or null. */
export function takeRest() {
  const found = JSON.parse(sessionStorage.getItem(STORE));
  sessionStorage.removeItem(STORE);
  if (!found?.pcm) return null;
  const pcm = new Int16Array(Uint8Array.from(atob(found.pcm), (one) => one.charCodeAt(0)).buffer);
  const pieces = [];
  for (let at = 0; at < pcm.length; at += 100 * MS) pieces.push(pcm.slice(at, at + 100 * MS));
  return { first: found.first, pieces };
}
