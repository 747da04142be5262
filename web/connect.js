// The way to the server that always works: sound and events on a WebSocket. The other one, with the
// same interface, is in call.js. Source: OpenAI's Realtime API.

import { server } from "./root.js";

const CONNECTED = 5000; // ms until it has to be there

/** Sound and events on a WebSocket. */
export function socket({ key, query, on }) {
  const protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : ["realtime"];
  const url = server(`v1/realtime${query}${query ? "&" : "?"}audio=binary`);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const wire = new WebSocket(url, protocols);
  wire.binaryType = "arraybuffer";
  return new Promise((done, failed) => {
    let isOpen = false;
    setTimeout(() => !isOpen && wire.close(), CONNECTED);
    wire.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (!isOpen && message.type === "error") failed(new Error(message.error.message));
      on.event(message);
    };
    wire.onerror = () => failed(new Error("the server can't be reached"));
    wire.onclose = ({ reason }) => {
      failed(new Error(reason || "the server can't be reached"));
      if (isOpen) on.closed(reason || "the connection was lost");
    };
    wire.onopen = () => {
      isOpen = true;
      const close = () => {
        wire.onclose = null;
        wire.close();
      };
      done({
        kind: "WebSocket",
        send: (event) => wire.readyState === WebSocket.OPEN && wire.send(JSON.stringify(event)),
        push: (pcm) => wire.readyState === WebSocket.OPEN && wire.send(pcm),
        leave: close,
        close,
      });
    };
  });
}
