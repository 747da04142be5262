"""Log records -> lines on standard error, for people on a terminal, of JSON elsewhere.

No audio, no text, no keys, no query strings.
"""

import json
import logging
import logging.config
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from livecap.api.options import LogFormat, LogLevel
from livecap.log import printable

ACCESS = "livecap.access"  # the logger with a line for each request and socket


class JsonLogFormatter(logging.Formatter):
    """A record is one object: time, level, logger, what happened, and its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """As a line, without its end."""
        payload: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage().strip(),
        }
        fields = record.__dict__.get("fields")
        if isinstance(fields, Mapping):
            payload.update(fields)
        if record.exc_info:
            payload["exception"] = self.formatException(record.exc_info)
        return json.dumps(payload, ensure_ascii=True, default=str)


class PlainLines(logging.Formatter):
    """A record is a line to read: local time, level unless it is info, what happened, and more."""

    def format(self, record: logging.LogRecord) -> str:
        """As a line, without its end."""
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        fields = record.__dict__.get("fields")
        payload = fields.items() if isinstance(fields, Mapping) else ()
        rest = ", ".join(f"{name} {value}" for name, value in payload if value not in (None, ""))
        line = f"{time} {level}{record.getMessage().strip()}{': ' if rest else ''}{rest}"
        exception = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return printable(line) + exception


def configure(level: LogLevel, form: LogFormat) -> None:
    """Send the process' log to standard error.

    What uvicorn and others say of less than warnings is left out: it names URLs with their queries.
    """
    is_plain = form == "text" or (form == "auto" and sys.stderr.isatty())
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"lines": {"()": PlainLines if is_plain else JsonLogFormatter}},
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "formatter": "lines",
                    "stream": sys.stderr,
                }
            },
            "root": {"level": "WARNING", "handlers": ["stderr"]},
            "loggers": {"livecap": {"level": level.upper()}, "uvicorn": {"level": "WARNING"}},
        }
    )


def note(logger: logging.Logger, event: str, fields: Mapping[str, object]) -> None:
    """Something worth a line, with values beside it.

    What a client sent is never among them as it came: only numbers, and names of our own.
    """
    logger.info(event, extra={"fields": fields})
