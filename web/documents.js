// The page's own lines -> txt, srt, vtt and json, for what no single session of the server has.

function stamp(ms, point) {
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const seconds = Math.floor(ms / 1000);
  const clock = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map((one) => pad(Math.floor(one)));
  return `${clock.join(":")}${point}${pad(Math.floor(ms % 1000), 3)}`;
}

function cues(lines, point) {
  return lines.map(({ start_ms, end_ms, text }, n) =>
    `${n + 1}\n${stamp(start_ms, point)} --> ${stamp(end_ms, point)}\n${text}\n`);
}

const FORMS = {
  txt: (lines) => lines.map(({ text }) => `${text}\n`).join(""),
  srt: (lines) => cues(lines, ",").join("\n"),
  vtt: (lines) => ["WEBVTT\n", ...cues(lines, ".")].join("\n"),
  json: (lines) =>
    JSON.stringify({
      task: "transcribe",
      language: lines.find((one) => one.language)?.language ?? "",
      duration: (lines.at(-1)?.end_ms ?? 0) / 1000,
      text: lines.map(({ text }) => text).join(" "),
      segments: lines.map(({ start_ms, end_ms, text }, id) => (
        { id, start: start_ms / 1000, end: end_ms / 1000, text }
      )),
    }),
};

/** Lines as {start_ms, end_ms, text} in one of the forms. */
export function written(lines, form) {
  return new Blob([FORMS[form](lines)]);
}
