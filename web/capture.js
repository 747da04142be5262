// The microphone, or a tab: asked for once, from a click; what goes wrong is said with what to do.

export class CaptureError extends Error {}

const SECURE = () => `https://${location.host}${location.pathname}`;

/** The ways in which it fails, and what to do about each. */
export function told(error) {
  if (!window.isSecureContext || !navigator.mediaDevices) {
    return `Browsers give the microphone only to secure pages. Open ${SECURE()} (start the server with --tls auto), or http://localhost on the machine that it runs on.`;
  }
  switch (error?.name) {
    case "NotAllowedError":
    case "SecurityError":
      return "The microphone was refused. Allow it for this page in the address bar, then press Start again.";
    case "NotFoundError":
      return "No microphone was found. Connect one, or check that the system knows it, then press Start again.";
    case "NotReadableError":
    case "AbortError":
      return "The microphone is in use by another program, or its driver failed. Close that program, then press Start again.";
    case "OverconstrainedError":
      return "The chosen microphone is not there any more. Choose another one in the list.";
    case "Muted":
      return "The system has muted the sound, so nothing is heard: another program may have it, or a key or switch. What is said until it is back is lost.";
    case "CaptureEnded":
      return "The microphone was taken away. Connect it again, or choose another one, then press Start.";
    default:
      return `The microphone could not be opened (${error?.message ?? error}). Choose another one, or reload the page.`;
  }
}

/** Open a microphone. `mode`: room (the sound as it is) or meeting (the browser cleans it). */
export async function microphone(deviceId, mode) {
  if (!navigator.mediaDevices) throw new CaptureError("no secure page");
  const cleans = mode === "meeting";
  return navigator.mediaDevices.getUserMedia({
    audio: {
      ...(deviceId ? { deviceId: { exact: deviceId } } : {}),
      channelCount: 1,
      echoCancellation: cleans,
      noiseSuppression: cleans,
      autoGainControl: cleans,
    },
  });
}

/** The sound of a tab that the user picks. */
export async function tab() {
  if (!navigator.mediaDevices?.getDisplayMedia) throw new CaptureError("no tabs here");
  const stream = await navigator.mediaDevices.getDisplayMedia({ video: true, audio: true });
  for (const track of stream.getVideoTracks()) track.stop();
  if (!stream.getAudioTracks().length) throw new CaptureError("without sound");
  return new MediaStream(stream.getAudioTracks());
}

/** Microphones by name; names are known once one has been allowed. */
export async function devices() {
  const all = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  return all.filter((one) => one.kind === "audioinput");
}

const RATE = 16000; // of what is sent

/** A stream -> 16 kHz PCM in pieces of 100 ms, and its level. */
export class Recorder {
  constructor(stream, { onPiece, onLevel }) {
    this.stream = stream;
    this.onPiece = onPiece;
    this.onLevel = onLevel;
  }

  async start() {
    this.context = new AudioContext();
    await this.context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
    await this.context.resume();
    this.source = this.context.createMediaStreamSource(this.stream);
    this.node = new AudioWorkletNode(this.context, "pieces", {
      processorOptions: { rate: RATE },
      numberOfOutputs: 0,
    });
    this.node.port.onmessage = ({ data }) => {
      this.onLevel(data.level);
      this.onPiece(data.pcm);
    };
    this.source.connect(this.node);
  }

  stop() {
    this.node?.port.close();
    this.source?.disconnect();
    this.context?.close();
    for (const track of this.stream.getTracks()) track.stop();
  }
}
