// Server-sent events of /v1/captions -> lines. The browser reconnects by itself, after the last line.

import { server } from "./root.js";

/** Follow a session. `on` has line(message), tail(message), gap(message), end(), state(text). */
export function follow(id, token, on) {
  const query = token ? `?token=${encodeURIComponent(token)}` : "";
  const source = new EventSource(server(`v1/captions/${encodeURIComponent(id)}/events${query}`));
  let last = 0;
  source.onopen = () => on.state("Connected");
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) on.state("These captions are not available.");
    else on.state("Connection lost; trying again …");
  };
  source.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.type === "end") {
      source.close();
      on.end();
    } else if (message.type === "tail") {
      on.tail(message);
    } else if (message.id > last) {
      last = message.id;
      if (message.type === "gap") on.gap(message);
      else on.line(message);
    }
  };
  return source;
}

/** The id in the path of a reader's page, and the token behind it. */
export function asked() {
  const part = location.pathname.split("/").at(-1);
  let id = part;
  try {
    id = decodeURIComponent(part);
  } catch {
    // Not what a link looks like: nothing will be found by it.
  }
  return { id, query: new URLSearchParams(location.search) };
}
