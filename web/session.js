// One talk: sound goes to the server by the best way there is, captions come back. When the
// connection breaks, what was not captioned for good is sent again on the next one.

import { Recorder } from "./capture.js";
import { call } from "./call.js";
import { socket } from "./connect.js";

export const MS = 16; // samples of what is recorded
const KEPT = 120; // seconds of sound that are kept to be sent again
const PIECE = 100; // ms
const BACK_OFF = [0, 500, 1000, 2000, 4000, 8000, 15000]; // ms
const RESTS = 60; // seconds of it that outlive a reload
const QUIET = 10; // seconds without sound after which something is wrong: at the beginning,
const PAUSE = 60; // and once something has been heard
const SILENT = 0.003; // level that counts as none
const ITEM = "conversation.item.input_audio_transcription";

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

export class Session {
  /**
   * `stream`: null if there is nothing but `pieces`, sound that has been recorded before. `first`:
   * ms at which the page's clock stands. `talk`: what these are the next words of. `on`: line,
   * tail, gap, status, lag, level, problem, talk, key, ended.
   */
  constructor(stream, options, on, { first = 0, pieces = [], talk = null } = {}) {
    this.stream = stream;
    this.options = options; // {key, language, model}
    this.on = on;
    this.pieces = pieces; // sound that may have to be sent again
    this.first = first; // ms: where the first of them begins
    this.now = pieces.reduce((ms, pcm) => ms + pcm.length / MS, first); // ms recorded
    this.base = first; // ms recorded when the connection's clock began
    this.settled = first; // ms up to which all is captioned for good
    this.talk = talk; // {id, key, origin}: what the server calls it, and where on the page's clock it began
    this.wire = null;
    this.tries = 0; // to connect, since it last came about
    this.isOver = false;
    this.begun = new Map(); // items under way -> ms at which they began, on the connection's clock
    this.quiet = 0; // seconds without sound
    this.mostQuiet = QUIET; // after which that is told
    this.isWarned = false;
    this.isStalled = false; // the server has said that speech makes no text
    this.typed = () => {}; // goes on with another key, where that is waited for
  }

  async start() {
    if (this.stream) {
      this.recorder = new Recorder(this.stream, {
        onPiece: (pcm) => this.record(pcm),
        onLevel: (level) => this.meter(level),
      });
      await this.recorder.start();
    }
    try {
      await this.connect(Boolean(this.stream));
    } catch (error) {
      if (!error.isKey) throw error;
      await this.lost(error);
    }
  }

  /** Another key has been typed. */
  set key(key) {
    this.options.key = key;
    this.typed();
  }

  record(pcm) {
    this.now += pcm.length / MS;
    this.pieces.push(pcm);
    while (this.pieces.length > (KEPT * 1000) / PIECE) this.forget();
    if (this.wire?.kind === "WebSocket") this.wire.push(pcm.buffer);
  }

  /** What is not under way after so long was silence. */
  forget() {
    this.first += this.pieces.shift().length / MS;
    const under = [...this.begun.values()].every((began) => this.base + began >= this.first);
    if (this.wire && under) this.settled = Math.max(this.settled, this.first);
  }

  /** The sound that is not captioned for good. */
  get rest() {
    const settled = Math.floor((this.settled - this.first) / PIECE);
    const gone = Math.max(settled, this.pieces.length - (RESTS * 1000) / PIECE, 0);
    return { first: this.first + gone * PIECE, pieces: this.pieces.slice(gone) };
  }

  meter(level) {
    this.on.level(level);
    if (level > SILENT) {
      if (this.isWarned) this.on.problem("");
      this.isWarned = false;
      this.mostQuiet = PAUSE;
      this.quiet = 0;
      return;
    }
    this.quiet += PIECE / 1000;
    if (this.quiet > this.mostQuiet && !this.isWarned) {
      this.isWarned = true;
      this.on.problem(`No sound for ${this.mostQuiet} s: is this the right microphone?`);
    }
  }

  get query() {
    const query = new URLSearchParams({ intent: "transcription" });
    if (this.options.model) query.set("model", this.options.model);
    if (this.options.language) query.set("language", this.options.language);
    query.set("captions", this.talk?.id ?? ""); // one talk, for its readers, over all connections
    if (this.talk?.key) query.set("captions_key", this.talk.key);
    if (this.talk) query.set("captions_at", Math.max(Math.round(this.base - this.talk.origin), 0));
    return `?${query}`;
  }

  /** By WebRTC first; where that does not get through, by WebSocket. */
  async connect(isFirst) {
    const on = {
      event: (message) => this.event(message),
      closed: (error) => this.lost(error),
    };
    const how = () => ({ key: this.options.key, query: this.query, on });
    this.base = this.now;
    if (isFirst && window.RTCPeerConnection && !this.options.socketOnly) {
      try {
        this.on.status("Connecting by WebRTC …");
        this.wire = await call(this.stream, how());
        this.base = this.now;
      } catch (error) {
        if (error.isKey) throw error;
        this.on.status(`WebRTC: ${error.message}; going on by WebSocket …`);
      }
    }
    if (!this.wire) {
      this.rewind();
      this.wire = await socket(how());
      this.queued = [...this.pieces];
    }
    this.configure();
    this.on.status(`Listening by ${this.wire.kind}`);
  }

  /** All that is not captioned for good is to go out again, and then what is recorded. */
  rewind() {
    while (this.pieces.length && this.first + this.pieces[0].length / MS <= this.settled) {
      this.forget();
    }
    if (this.first > this.settled + PIECE) {
      this.on.gap(this.settled, this.first, "the connection was away for too long");
    }
    this.base = this.first;
  }

  configure() {
    const format = { type: "audio/pcm", rate: 16000 };
    const input = this.wire.kind === "WebSocket" ? { format } : {};
    this.wire.send({
      type: "session.update",
      session: {
        type: "transcription",
        include: ["livecap.partial", "livecap.words"],
        audio: { input: { ...input, turn_detection: { type: "server_vad" } } },
      },
    });
    for (const pcm of this.queued ?? []) this.wire.push(pcm.buffer);
    this.queued = null;
  }

  event(message) {
    switch (message.type) {
      case "session.created":
        this.tries = 0;
        this.begins(message.session);
        break;
      case "input_audio_buffer.speech_started":
        this.begun.set(message.item_id, message.audio_start_ms);
        break;
      case "livecap.transcription.stalled": {
        const seconds = Math.round(message.voiced_ms / 1000);
        this.isStalled = true;
        this.on.problem(
          `${seconds} s of speech without text; they are decoded anew. ` +
            "Is it the right language, and is the speech louder than what is around it?",
        );
        break;
      }
      case "livecap.transcription.partial": {
        const { text, stable_chars: stable } = message;
        if (text.trim()) this.understood();
        this.on.tail(text.slice(0, stable), text.slice(stable));
        const heard = (this.begun.get(message.item_id) ?? 0) + message.audio_ms;
        this.on.lag(Math.max(this.now - this.base - heard, 0));
        break;
      }
      case `${ITEM}.completed`: {
        const start = this.base + (message.start_ms ?? 0);
        const end = this.base + (message.end_ms ?? 0);
        this.settled = Math.max(this.settled, end);
        this.begun.delete(message.item_id);
        this.on.tail("", "");
        if (message.transcript.trim()) {
          this.understood();
          const language = message.languages?.[0]?.code;
          this.on.line({ start_ms: start, end_ms: end, text: message.transcript.trim(), language });
        }
        break;
      }
      case `${ITEM}.failed`:
        this.on.problem(message.error.message);
        break;
      case "error":
        this.on.problem(message.error.message);
        break;
    }
  }

  /** There is text again: what was said about there being none is over. */
  understood() {
    if (this.isStalled) this.on.problem("");
    this.isStalled = false;
  }

  /** The server knows what is said by that id: of the first connection, or of one it has forgotten. */
  begins({ id: own, livecap }) {
    const id = livecap?.captions ?? own;
    if (this.talk?.id !== id) this.talk = { id, key: livecap?.captions_key, origin: this.base };
    this.on.talk(this.talk);
  }

  /** Recording goes on, and so does trying; from now on by WebSocket, where nothing gets lost. */
  async lost(error) {
    const left = this.wire;
    this.wire = null;
    this.begun.clear();
    this.on.tail("", "");
    while (!this.isOver) {
      if (error.isKey) await this.askForKey();
      else await this.pause(error.message);
      if (this.isOver) return;
      try {
        await this.connect(false);
        left?.close();
        return;
      } catch (again) {
        error = again;
      }
    }
  }

  async pause(reason) {
    this.on.status(`Not connected: ${reason}. Recording goes on; trying again …`);
    const pause = BACK_OFF[Math.min(this.tries, BACK_OFF.length - 1)];
    this.tries += 1;
    await wait(pause * (0.75 + Math.random() / 2));
  }

  /** Trying again would not help: until one is typed, or the talk is stopped. */
  async askForKey() {
    this.on.status("Waiting for the key; what is said is recorded meanwhile.");
    this.on.key();
    await new Promise((done) => {
      this.typed = done;
    });
    this.tries = 0;
  }

  /** All that was said is still captioned; then it is over. */
  async stop() {
    this.isOver = true;
    this.typed();
    this.recorder?.stop();
    const wire = this.wire;
    if (wire) {
      this.on.status("Finishing …");
      const done = new Promise((finished) => {
        this.lost = finished;
      });
      wire.send({ type: "session.close" });
      await Promise.race([done, wait(10000)]);
      wire.close();
    } else {
      this.on.gap(this.settled, this.now, "not connected when it was stopped");
    }
    this.on.tail("", "");
    this.on.ended();
  }
}
