// The way to the server that always works: sound and events on a WebSocket. The other one, with the
// same interface, is in call.js. Source: OpenAI's Realtime API.

import { server } from "./root.js";

const CONNECTED = 5000; // ms until it has to be there
const REFUSED = 3000; // with which the server closes where the key is not right

/** The server asks for a key, or for another one. */
export const keyRefused = () =>
  Object.assign(new Error("the key is missing, or not the right one"), { isKey: true });

/** Sound and events on a WebSocket. */
export function socket({ key, query, on }) {
  const protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : ["realtime"];
  const url = server(`v1/realtime${query}${query ? "&" : "?"}audio=binary`);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const wire = new WebSocket(url, protocols);
  wire.binaryType = "arraybuffer";
  return new Promise((done, failed) => {
    let isOpen = false; // the session has begun
    setTimeout(() => !isOpen && wire.close(), CONNECTED);
    const close = () => {
      wire.onclose = null;
      wire.close();
    };
    const ready = {
      kind: "WebSocket",
      send: (event) => wire.readyState === WebSocket.OPEN && wire.send(JSON.stringify(event)),
      push: (pcm) => wire.readyState === WebSocket.OPEN && wire.send(pcm),
      leave: close,
      close,
    };
    wire.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (!isOpen && message.type === "error") {
        failed(message.error.code === "invalid_api_key" ? keyRefused() : new Error(message.error.message));
        close();
        return;
      }
      if (!isOpen) done(ready);
      isOpen = true;
      on.event(message);
    };
    wire.onerror = () => failed(new Error("the server can't be reached"));
    wire.onclose = ({ code, reason }) => {
      const error = code === REFUSED ? keyRefused() : new Error(reason || "the connection was lost");
      if (isOpen) on.closed(error);
      else failed(code === REFUSED ? error : new Error(reason || "the server can't be reached"));
    };
  });
}
