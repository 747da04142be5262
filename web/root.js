// Where the server is: found from where the scripts came, so that a proxy may put a path before it.

const ROOT = new URL("../", import.meta.url);

/** A path of the server, as in at("v1/models") -> its URL. */
export function server(path) {
  return new URL(path, ROOT);
}
