// The page of those who read along.

import { Awake } from "./awake.js";
import { comfort, put, save } from "./comfort.js";
import { asked, follow } from "./follow.js";
import { server } from "./root.js";
import { Transcript } from "./transcript.js";

const { id, query } = asked();
const token = query.get("token");
const transcript = new Transcript();
const status = document.getElementById("status");
comfort(transcript);
const awake = new Awake();
awake.hold();

follow(id, token, {
  line: (message) => {
    transcript.add(message);
    transcript.tail("", "");
  },
  gap: (message) => transcript.note(`[${message.reason}]`),
  tail: (message) => transcript.tail(message.text, message.tail),
  end: () => {
    awake.drop();
    transcript.tail("", "");
    status.textContent = "The speaker has ended these captions.";
  },
  state: (text) => {
    status.textContent = text;
  },
});

document.getElementById("copy").addEventListener("click", async () => {
  await put(transcript.text);
  status.textContent = "Copied.";
});
document.getElementById("download").addEventListener("click", async () => {
  const form = document.getElementById("form").value;
  const path = `v1/captions/${encodeURIComponent(id)}.${form}?token=${encodeURIComponent(token)}`;
  const answer = await fetch(server(path));
  if (answer.ok) save(await answer.blob(), `captions.${form}`);
  else status.textContent = "These captions are not available any more.";
});
