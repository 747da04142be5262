// Size, theme, copy and save: the same on all pages, and kept from visit to visit.

const SIZES = [1, 1.25, 1.5, 2, 2.5, 3, 4]; // rem
const THEMES = ["system", "light", "dark", "contrast"];

export function kept(name, usual) {
  return localStorage.getItem(`livecap.${name}`) ?? usual;
}

export function keep(name, value) {
  localStorage.setItem(`livecap.${name}`, value);
}

export function comfort(transcript) {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  let size = Number(kept("size", "2"));

  function resize(step) {
    size = Math.min(Math.max(size + step, 0), SIZES.length - 1);
    root.style.setProperty("--size", `${SIZES[size]}rem`);
    keep("size", String(size));
    if (transcript.isAtEnd) transcript.toEnd();
  }

  function dress(name) {
    theme.value = name;
    root.dataset.theme = name;
    keep("theme", name);
  }

  document.getElementById("smaller").addEventListener("click", () => resize(-1));
  document.getElementById("larger").addEventListener("click", () => resize(1));
  theme.addEventListener("change", () => dress(theme.value));
  resize(0);
  dress(kept("theme", "system"));

  return {
    larger: () => resize(1),
    smaller: () => resize(-1),
    nextTheme: () => dress(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]),
  };
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Text -> the clipboard, which plain http has only in the old way. */
export async function put(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
