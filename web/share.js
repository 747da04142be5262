// What is passed on of a talk, and taken back: links, the code of one, and the deletion.

import { put } from "./comfort.js";
import { server } from "./root.js";

const HOUR = 3600; // seconds
const PAGES = [
  ["Viewer", "url", "for those who read along, on a phone or a screen"],
  ["Overlay", "overlay", "two lines on nothing, for OBS or a projector"],
];
const ALONE =
  "Another machine can't open these: the server listens to this one alone. For others, start it with ";
const OPEN = "livecap serve --host 0.0.0.0 --tls auto --api-key KEY";

function element(name, text, to = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  return Object.assign(made, to);
}

/** The links of a talk; null if there are none. `headers` say who asks. */
export async function askForLinks(id, headers) {
  const base = encodeURIComponent(server("./").href);
  const path = server(`v1/captions/${id}/share?base=${base}`);
  const answer = await fetch(path, { method: "POST", headers });
  return answer.ok ? answer.json() : { status: answer.status };
}

/** Show them; `told` is called with what is to be said. */
export function showLinks(box, found, told) {
  const rows = PAGES.map(([name, field, what]) => {
    const row = element("p", "");
    const copy = element("button", "Copy link", { type: "button" });
    copy.setAttribute("aria-label", `Copy the link of ${name}`);
    copy.addEventListener("click", async () => {
      await put(found[field]);
      told(`The link of ${name} is copied.`);
    });
    row.append(element("a", name, { href: found[field], target: "_blank" }), `: ${what} `, copy);
    return row;
  });
  if (found.code) {
    rows.push(element("img", "", { src: found.code, alt: "A code to scan: it opens Viewer" }));
  }
  if (!found.reachable) {
    const alone = element("p", ALONE);
    alone.append(element("code", OPEN));
    rows.unshift(alone);
  }
  box.replaceChildren(...rows);
}

/** How long a talk can be read after its end, in words; empty where that isn't known. */
export async function staying(headers) {
  const answer = await fetch(server("v1/captions?limit=1"), { headers }).catch(() => null);
  if (!answer?.ok) return "";
  const { stays } = await answer.json();
  if (!stays) return "The server keeps each talk until it is deleted.";
  const time = stays < HOUR ? `${Math.round(stays / 60)} minutes` : `${Math.round(stays / HOUR / 24)} days`;
  return `The server keeps a talk until ${time} after its end.`;
}

/** Delete a talk on the server -> whether it is gone there. */
export async function deleteTalk(id, headers) {
  const answer = await fetch(server(`v1/captions/${id}`), { method: "DELETE", headers }).catch(() => null);
  return Boolean(answer?.ok || answer?.status === 404);
}
