// A media file -> its captions, by /v1/audio/transcriptions, with progress while it goes up.

import { server } from "./root.js";

export function upload(file, { headers, model, onProgress }) {
  const form = new FormData();
  form.append("model", model || "whisper-1");
  form.append("response_format", "verbose_json");
  form.append("file", file);
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest(); // fetch tells nothing of what has gone up
    request.open("POST", server("v1/audio/transcriptions"));
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / total);
    request.onerror = () => failed(new Error("The server can't be reached; try again."));
    request.onload = () => {
      if (request.status === 200) done(request.response);
      else failed(new Error(request.response?.error?.message ?? `The server said ${request.status}.`));
    };
    request.send(form);
  });
}
