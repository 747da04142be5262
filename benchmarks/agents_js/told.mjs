// A session of OpenAI's realtime agents: what it is told, and what it makes of it.

const FINAL = "conversation.item.input_audio_transcription.completed";
const DELTA = "conversation.item.input_audio_transcription.delta";
const QUIET = 4000; // ms without an event, after the last turn, that end it

// Notes all that the session's transport is told. `until` is over when `wanted` turns are, or the
// time is up.
export function watched(session) {
  const told = { finals: [], deltas: 0, errors: [], events: {} };
  let last = Infinity;
  session.transport.on("*", (event) => {
    told.events[event.type] = (told.events[event.type] ?? 0) + 1;
    last = Date.now();
    if (event.type === FINAL) told.finals.push(event.transcript);
    if (event.type === DELTA) told.deltas++;
    if (event.type === "error") told.errors.push(`${event.error.code}: ${event.error.message}`);
  });
  session.on("error", ({ error }) => {
    if (!error?.error?.error) told.errors.push(String(error?.message ?? error));
  });
  return {
    async silence() {
      last = Date.now();
      while (Date.now() - last < QUIET) await new Promise((done) => setTimeout(done, 100));
    },
    get all() {
      const items = session.history.filter((item) => item.role === "user");
      return { ...told, history: items.map((item) => item.content[0].transcript) };
    },
  };
}
