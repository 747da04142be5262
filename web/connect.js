// Two ways to the server, with one interface: {kind, send(event), push(pcm), close(), clock}.
// `on` has event(message) and closed(reason). Source: OpenAI's Realtime API.

const GATHERED = 2000; // ms until an offer goes out with what candidates there are
export const CONNECTED = 3000; // ms until WebRTC has to be there

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

function authorised(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** Sound as a track, events on a data channel. Fails if that is not there in time. */
export async function call(stream, { key, query, on }) {
  const ice = await fetch("/v1/realtime/ice", { headers: authorised(key) });
  if (!ice.ok) throw new Error("the server takes no calls");
  const peer = new RTCPeerConnection(await ice.json());
  const channel = peer.createDataChannel("oai-events");
  let isOver = false;
  const over = (reason) => {
    if (isOver) return;
    isOver = true;
    peer.close();
    on.closed(reason);
  };
  try {
    for (const track of stream.getAudioTracks()) peer.addTrack(track, stream);
    await peer.setLocalDescription();
    const gathered = new Promise((done) => {
      if (peer.iceGatheringState === "complete") done();
      peer.onicegatheringstatechange = () => peer.iceGatheringState === "complete" && done();
    });
    await Promise.race([gathered, wait(GATHERED)]);
    const answer = await fetch(`/v1/realtime/calls${query}`, {
      method: "POST",
      headers: { "Content-Type": "application/sdp", ...authorised(key) },
      body: peer.localDescription.sdp,
    });
    if (!answer.ok) throw new Error((await answer.json()).error?.message ?? answer.statusText);
    const place = answer.headers.get("Location");
    channel.onmessage = ({ data }) => on.event(JSON.parse(data));
    const opened = new Promise((done) => {
      channel.onopen = () => done(true);
    });
    await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    if (!(await Promise.race([opened, wait(CONNECTED)]))) throw new Error("no way through");
    channel.onclose = () => over("the connection was closed");
    peer.onconnectionstatechange = () => {
      if (["failed", "closed"].includes(peer.connectionState)) over("the connection was lost");
    };
    return {
      kind: "WebRTC",
      send: (event) => channel.readyState === "open" && channel.send(JSON.stringify(event)),
      push: () => {},
      close: () => {
        isOver = true;
        if (place) fetch(`${place}/hangup`, { method: "POST", headers: authorised(key) });
        peer.close();
      },
    };
  } catch (error) {
    isOver = true;
    peer.close();
    throw error;
  }
}

/** Sound and events on a WebSocket. */
export function socket({ key, query, on }) {
  const protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : ["realtime"];
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const wire = new WebSocket(
    `${scheme}//${location.host}/v1/realtime${query}${query ? "&" : "?"}audio=binary`,
    protocols,
  );
  wire.binaryType = "arraybuffer";
  return new Promise((done, failed) => {
    let isOpen = false;
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
      done({
        kind: "WebSocket",
        send: (event) => wire.readyState === WebSocket.OPEN && wire.send(JSON.stringify(event)),
        push: (pcm) => wire.readyState === WebSocket.OPEN && wire.send(pcm),
        close: () => {
          wire.onclose = null;
          wire.close();
        },
      });
    };
  });
}
