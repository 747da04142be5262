// The first way to the server: sound as a track, events on a data channel. The other one is in
// connect.js, with the same interface: {kind, send(event), push(pcm), close()}.
// `on` has event(message) and closed(error). Source: OpenAI's Realtime API, WebRTC.

import { keyRefused } from "./connect.js";
import { server } from "./root.js";

const ANY = 1000; // ms until an offer goes out with what addresses there are
const CONNECTED = 3000; // ms until the call has to be there,
const AFTER = 1500; // or at least so many after the answer
const ANSWERED = 5000; // ms for a request
const LOOK = 1000; // ms between two looks at what has arrived
const LOST = 25; // packets of 20 ms between two looks: more than a hiccup

const NO_WAY = new Error("no way through");

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Fails if it does not get through in time. */
export async function call(stream, { key, query, on }) {
  const until = performance.now() + CONNECTED;
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const ask = (path, more) =>
    fetch(path, { headers, signal: AbortSignal.timeout(ANSWERED), ...more });
  const ice = await ask(server("v1/realtime/ice"));
  if (ice.status === 401) throw keyRefused();
  if (!ice.ok) throw new Error("the server takes no calls");
  const peer = new RTCPeerConnection(await ice.json());
  let hangUp = async () => {};
  try {
    const channel = peer.createDataChannel("oai-events");
    for (const track of stream.getAudioTracks()) peer.addTrack(track, stream);
    const answer = await ask(server(`v1/realtime/calls${query}`), {
      method: "POST",
      headers: { "Content-Type": "application/sdp", ...headers },
      body: await offered(peer),
    });
    if (!answer.ok) throw new Error((await answer.json()).error?.message ?? answer.statusText);
    const id = answer.headers.get("Location").split("/").at(-1);
    hangUp = () =>
      ask(server(`v1/realtime/calls/${id}/hangup`), { method: "POST", keepalive: true });
    const sdp = await answer.text();
    const opened = new Promise((done, failed) => {
      channel.onopen = () => done(under(peer, channel, hangUp, on));
      peer.onconnectionstatechange = () => peer.connectionState === "failed" && failed(NO_WAY);
      setTimeout(() => failed(NO_WAY), Math.max(until - performance.now(), AFTER));
    });
    const both = [opened, peer.setRemoteDescription({ type: "answer", sdp })];
    return (await Promise.all(both))[0];
  } catch (error) {
    peer.close();
    hangUp().catch(() => {});
    throw error;
  }
}

/** The offer, with this machine's addresses in it. Fails if there is none. */
async function offered(peer) {
  let isAny = false;
  const gathered = new Promise((done) => {
    peer.onicecandidate = ({ candidate }) => {
      isAny ||= Boolean(candidate?.candidate);
      if (!candidate) done();
    };
  });
  await peer.setLocalDescription();
  await Promise.race([gathered, wait(ANY)]);
  if (!isAny) throw new Error("this machine has no network that a call could take");
  return peer.localDescription.sdp;
}

/** A call that is there, until either side or the network ends it. */
function under(peer, channel, hangUp, on) {
  let isOver = false;
  let isDone = false; // the server has told all and closed it
  let lost = 0;
  const over = (reason) => {
    if (isOver) return;
    isOver = true;
    clearInterval(timer);
    peer.close();
    on.closed(new Error(reason));
  };
  const look = async () => {
    const reports = [...(await peer.getStats()).values()];
    const now = reports.find((one) => one.type === "remote-inbound-rtp")?.packetsLost ?? lost;
    if (now - lost > LOST) over("sound was lost on the way");
    lost = now;
  };
  const timer = setInterval(look, LOOK);
  channel.onmessage = ({ data }) => on.event(JSON.parse(data));
  channel.onclose = () => {
    isDone = peer.connectionState === "connected";
    over("the connection was closed");
  };
  peer.onconnectionstatechange = () => {
    if (["disconnected", "failed", "closed"].includes(peer.connectionState)) {
      over("the connection was lost");
    }
  };
  return {
    kind: "WebRTC",
    send: (event) => channel.readyState === "open" && channel.send(JSON.stringify(event)),
    push: () => {},
    leave: () => {
      isOver = true; // and the server is told nothing: the talk may go on
      clearInterval(timer);
      peer.close();
    },
    close: () => {
      isOver = true;
      clearInterval(timer);
      peer.close();
      if (!isDone) hangUp().catch(() => {}); // who can't be told notices by itself
      isDone = true;
    },
  };
}
