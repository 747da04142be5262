// The package `openai` on a server: node openai_realtime.cjs BASE_URL PCM manual|turns
// PCM is a file, 24 kHz, mono, 16 bit. Each event goes out as a line of JSON.

const { readFileSync } = require("node:fs");
const OpenAI = require("openai").default;
const { OpenAIRealtimeWS } = require("openai/realtime/ws");

const [base, file, mode] = process.argv.slice(2);
const PIECE = 24000 / 10 * 2; // bytes of 100 ms
const pcm = readFileSync(file);
const client = new OpenAI({ baseURL: base, apiKey: "none" });
const realtime = new OpenAIRealtimeWS({ model: "gpt-realtime" }, client);

realtime.on("event", (event) => console.log(JSON.stringify(event)));
realtime.on("error", (error) => {
  console.error(String(error.message));
  process.exit(1);
});
realtime.on("session.created", () => {
  const turns = mode === "manual" ? null : { type: "server_vad" };
  const input = { format: { type: "audio/pcm", rate: 24000 }, turn_detection: turns };
  realtime.send({ type: "session.update", session: { type: "transcription", audio: { input } } });
  for (let at = 0; at < pcm.length; at += PIECE) {
    const audio = pcm.subarray(at, at + PIECE).toString("base64");
    realtime.send({ type: "input_audio_buffer.append", audio });
    if (mode === "manual" && at < pcm.length / 2 && at + PIECE >= pcm.length / 2) {
      realtime.send({ type: "input_audio_buffer.commit" });
    }
  }
  if (mode === "manual") realtime.send({ type: "input_audio_buffer.commit" });
  realtime.send({ type: "session.close" });
});
