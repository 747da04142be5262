// Node: `node socket.mjs URL WAV` says a WAV of 24 kHz over a WebSocket, and prints what came of it.

import { readFileSync } from "node:fs";
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession } from "@openai/agents-realtime";
import { watched } from "./told.mjs";

const [url, path] = process.argv.slice(2);
const HEADER = 44; // bytes
const PIECE = 4800; // bytes of 0.1 s

const agent = new RealtimeAgent({ name: "Secretary", instructions: "Write down what is said." });
const transport = new OpenAIRealtimeWebSocket({ url });
const session = new RealtimeSession(agent, { transport });
const seen = watched(session);
await session.connect({ apiKey: "none" });
const pcm = readFileSync(path).subarray(HEADER);
const begun = Date.now();
for (let at = 0; at < pcm.length; at += PIECE) {
  await new Promise((done) => setTimeout(done, begun + at / 48 - Date.now()));
  const piece = Uint8Array.from(pcm.subarray(at, at + PIECE));
  session.sendAudio(piece.buffer);
}
await seen.silence();
console.log(JSON.stringify(seen.all));
session.close();
process.exit(0);
