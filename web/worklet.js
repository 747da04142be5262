// Sound of any rate -> pieces of 16-bit PCM at another, with a filter that keeps its state.
/* global AudioWorkletProcessor, registerProcessor, sampleRate */

const TAPS = 32; // on each side of a sample, at the lower rate
const PIECE = 0.1; // seconds

class Pieces extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.step = sampleRate / processorOptions.rate; // input samples for one of output
    this.scale = Math.max(this.step, 1);
    this.reach = Math.ceil(TAPS * this.scale);
    this.input = new Float32Array(this.reach); // what the filter still needs
    this.at = this.reach; // where the next output sample lies in it
    this.size = Math.round(processorOptions.rate * PIECE);
    this.output = new Int16Array(this.size);
    this.count = 0;
    this.loudest = 0;
  }

  /** A windowed sinc around one moment. */
  value(at) {
    const from = Math.ceil(at - this.reach);
    const to = Math.floor(at + this.reach);
    let sum = 0;
    for (let n = Math.max(from, 0); n <= to; n++) {
      const x = (n - at) / this.scale;
      const window = 0.5 + 0.5 * Math.cos((Math.PI * x) / TAPS);
      const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
      sum += this.input[n] * sinc * window;
    }
    return sum / this.scale;
  }

  process([channels]) {
    if (!channels.length) return true;
    const frames = channels[0].length;
    const grown = new Float32Array(this.input.length + frames);
    grown.set(this.input);
    for (let n = 0; n < frames; n++) {
      let sum = 0;
      for (const channel of channels) sum += channel[n];
      grown[this.input.length + n] = sum / channels.length;
    }
    this.input = grown;
    while (this.at + this.reach < this.input.length) {
      const value = this.value(this.at);
      this.at += this.step;
      this.loudest = Math.max(this.loudest, Math.abs(value));
      this.output[this.count++] = Math.max(-32768, Math.min(32767, Math.round(value * 32767)));
      if (this.count === this.size) this.send();
    }
    const drop = Math.max(Math.floor(this.at) - this.reach, 0);
    this.input = this.input.slice(drop);
    this.at -= drop;
    return true;
  }

  send() {
    const pcm = this.output;
    this.port.postMessage({ pcm, level: this.loudest }, [pcm.buffer]);
    this.output = new Int16Array(this.size);
    this.count = 0;
    this.loudest = 0;
  }
}

registerProcessor("pieces", Pieces);
