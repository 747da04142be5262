// Keys, and files that are dropped on the page.

/** Act on keys, unless they belong to a field or to the browser. */
export function shortcuts(actions) {
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest("input, select, button, a");
    if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actions[event.key] ?? actions[event.key.toLowerCase()];
    if (action) {
      event.preventDefault();
      action();
    }
  });
}

/** `take` is given the first file that is dropped anywhere. */
export function dropped(take) {
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("drop");
  });
  document.addEventListener("dragleave", () => document.body.classList.remove("drop"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("drop");
    const [chosen] = event.dataTransfer.files;
    if (chosen) take(chosen);
  });
}
