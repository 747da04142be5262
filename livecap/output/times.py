"""Samples -> the times that files show. Rounded once, in whole milliseconds."""

from livecap.events import RATE, Caption


def milliseconds(samples: int) -> int:
    """The nearest millisecond; halves go up."""
    return (samples * 1000 + RATE // 2) // RATE


def seconds(samples: int) -> float:
    """Seconds to three decimals."""
    return milliseconds(samples) / 1000


def clock(samples: int, point: str) -> str:
    """'HH:MM:SS' + point + 'mmm'; more digits from 100 hours on."""
    left, milli = divmod(milliseconds(samples), 1000)
    left, second = divmod(left, 60)
    hour, minute = divmod(left, 60)
    return f"{hour:02}:{minute:02}:{second:02}{point}{milli:03}"


def span(caption: Caption) -> tuple[int, int]:
    """Samples from the caption's first word to its last, or what was heard where untimed."""
    starts = [word.start for word in caption.words if word.start is not None]
    ends = [word.end for word in caption.words if word.end is not None]
    timed = bool(caption.words) and len(starts) == len(ends) == len(caption.words)
    start = max(0, min(starts) if timed else caption.start)
    return start, max(start, max(ends) if timed else caption.processed_until)
