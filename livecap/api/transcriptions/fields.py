"""Form fields in the spellings that clients have for them -> values by name.

The official clients send lists as repeated `name[]` and objects as `name[key]`; others send
`name`, `name[0]`, commas, or JSON.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from livecap.api.errors import ApiError, invalid

NAME = re.compile(r"([^\[\]]+)(?:\[([^\[\]]*)\])?")
TRUE, FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})
NOTHING = frozenset({"", "null", "none"})
MOST = 1000  # different values of a list
SHOWN = 100  # characters of a value that a message repeats

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Fields:
    """The text fields of a form. Values that are empty count as not sent."""

    values: Mapping[str, Sequence[str]]
    objects: Mapping[str, Mapping[str, str]]  # of name[key]

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> "Fields":
        """Names and values as they were sent, in order."""
        values: dict[str, list[str]] = {}
        objects: dict[str, dict[str, str]] = {}
        for sent, value in pairs:
            match = NAME.fullmatch(sent.strip())
            name, key = (match[1], match[2]) if match else (sent, None)
            if not key or key.isdecimal():
                values.setdefault(name, []).append(value)
            else:
                objects.setdefault(name, {})[key] = value
        return cls(values, objects)

    def text(self, name: str) -> str | None:
        """The last value that is not blank, as it was sent."""
        return next((one for one in reversed(self.values.get(name, ())) if one.strip()), None)

    def word(self, name: str) -> str | None:
        """The last value, without the space around it; None for nothing, 'null' and 'none'."""
        found = (self.text(name) or "").strip()
        return None if found.lower() in NOTHING else found

    def many(self, name: str) -> list[str]:
        """All values of a list, each once, in order. Raises ApiError where there are too many."""
        parts = (part.strip() for value in self.values.get(name, ()) for part in _parts(value))
        found = dict.fromkeys(part for part in parts if part)
        if len(found) > MOST:
            raise invalid(name, f"There are more than {MOST} values.")
        return list(found)

    def truth(self, name: str, *, default: bool) -> bool:
        """A boolean in any case. Raises ApiError for anything else."""
        found = self.word(name)
        if found is None:
            return default
        if found.lower() not in TRUE | FALSE:
            raise invalid(name, f"Invalid value: {shown(found)}. Give true or false.")
        return found.lower() in TRUE

    def number(self, name: str, low: float, high: float) -> float | None:
        """A number in a range. Raises ApiError for anything else."""
        found = self.word(name)
        return None if found is None else number(name, found, low, high)

    def object(self, name: str) -> Mapping[str, Value] | str | None:
        """An object of plain values, sent as JSON or key by key; or the word that stands for one.

        Raises ApiError for JSON that is no such object.
        """
        if name in self.objects:
            return self.objects[name]
        found = self.word(name)
        if found is None or not found.startswith("{"):
            return None if found is None else found.strip("\"'")
        try:
            return msgspec.json.decode(found, type=dict[str, Value])
        except (msgspec.DecodeError, RecursionError) as error:
            raise invalid(name, f"Invalid value: {shown(found)} ({error}).") from None


def number(name: str, value: object, low: float, high: float) -> float:
    """A value as a number in a range. Raises ApiError, which names the field, for anything else."""
    try:
        found = float(str(value))
    except ValueError:
        found = math.nan
    if not low <= found <= high:
        raise _out_of(name, value, low, high)
    return found


def shown(value: object) -> str:
    """A value that a client sent, as a message may repeat it."""
    text = str(value)
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return repr(text)


def choices(options: Sequence[str]) -> str:
    """The values that a field can have, for a message."""
    return f"Supported values are: {', '.join(map(repr, options))}."


def _out_of(name: str, value: object, low: float, high: float) -> ApiError:
    top = f" to {high:g}" if math.isfinite(high) else " or more"
    return invalid(name, f"Invalid value: {shown(value)}. Give a number, {low:g}{top}.")


def _parts(value: str) -> Sequence[str]:
    if value.strip().startswith("["):
        try:
            return msgspec.json.decode(value, type=list[str])
        except msgspec.DecodeError:
            pass  # text that begins with a bracket
    return value.split(",")
