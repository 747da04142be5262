// Text -> the characters that CEA-608 has: those of Latin-1. Typographic signs become plain ones,
// letters of other Latin alphabets lose their marks. The same as livecap/captions/cea608.py.

const PLAIN = {
  "‘": "'", "’": "'", "‚": ",", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "‹": "<", "›": ">",
  "′": "'", "″": '"', "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-",
  "…": "...", "•": "*", "⁄": "/", "€": "EUR", "™": "(TM)",
  ł: "l", Ł: "L", đ: "d", Đ: "D", ħ: "h", Ħ: "H", ı: "i", œ: "oe", Œ: "OE", ŋ: "n", Ŋ: "N", ŧ: "t", Ŧ: "T",
  ẞ: "SS",
};
const HAS = /^[\x20-\x7e\u00a1-\u00ff]*$/;

/** A word as it can be shown; null if letters of it can't be. */
export function folded(word) {
  let shown = "";
  for (const char of word.normalize("NFC")) {
    let plain = PLAIN[char] ?? char;
    if (!HAS.test(plain)) plain = plain.normalize("NFKD").replace(/\p{M}/gu, "");
    if (HAS.test(plain)) shown += plain;
    else if (/[\p{L}\p{N}]/u.test(char)) return null;
  }
  return shown;
}
