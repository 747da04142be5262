"""Events -> text, subtitles and data, written as they are recognised."""

from livecap.output.files import is_complete, marker
from livecap.output.naming import NamedInput, plan, relabelled
from livecap.output.writers import FORMATS, Options, Writer, format_of, open_writer

__all__ = [
    "FORMATS",
    "NamedInput",
    "Options",
    "Writer",
    "format_of",
    "is_complete",
    "marker",
    "open_writer",
    "plan",
    "relabelled",
]
