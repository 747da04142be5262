"""What many sessions or uploads at once were answered -> figures, and tables of them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compare import HERE
from latency import late
from load_clients import Heard, Turn

from livecap.commands.bench_measures import percentile
from livecap.events import RATE, Word

Row = dict[str, Any]
SPARE = 0.25  # seconds by which a word may end after the stretch of speech that it is in


def scored(heard: Sequence[Heard], known: Sequence[Sequence[Word]]) -> Row:
    """Sessions, and the words with times that each should have told -> figures in seconds."""
    let_in = [(one, words) for one, words in zip(heard, known, strict=True) if not one.refused]
    words = [value for one, timed in let_in for value in late(one.commits, timed)]
    turns = [turn for one, _ in let_in for turn in one.turns]
    expected = sum(len(timed) for _, timed in let_in)
    found = [value for value in words if value is not None]
    return {
        "sessions": len(heard),
        "let_in": len(let_in),
        "refusals": sorted(one.refused for one in heard if one.refused),
        "problems": [problem for one, _ in let_in for problem in one.problems],
        "first": _rounded(t.first - t.start for t in turns if t.first is not None),
        "final": _rounded(
            t.final - t.end for t in turns if t.final is not None and t.end is not None
        ),
        "unanswered": sum(t.end is not None and t.final is None for t in turns),
        "words": _rounded(found),
        "found": round(100 * len(found) / expected, 1) if expected else None,
        "lag": _rounded(lag for one, _ in let_in for lag in one.lags),
        "client_late": round(max((one.late for one, _ in let_in), default=0.0), 3),
    }


def turns_by_words(
    commits: Sequence[tuple[float, str]], known: Sequence[Word], spoken: Sequence[tuple[int, int]]
) -> list[Turn]:
    """For a system without turns: stretches of speech, answered by the words known to be in them.

    The first is the first of these to come, the final one the last. `spoken`: samples.
    """
    moments: dict[int, float] = {}  # end of a word, samples -> when it came
    said = [(at, at - delay) for (at, delay) in _with_delays(commits, known) if delay is not None]
    for at, end in said:
        moments.setdefault(round(end * RATE), at)
    found: list[Turn] = []
    for start, stop in spoken:
        own = [at for end, at in moments.items() if start < end <= stop + SPARE * RATE]
        turn = Turn(start / RATE, stop / RATE)
        if own:
            turn.first, turn.final = min(own), max(own)
        found.append(turn)
    return found


def _with_delays(
    commits: Sequence[tuple[float, str]], known: Sequence[Word]
) -> Iterable[tuple[float, float | None]]:
    from latency import spoken

    from livecap.commands.bench_measures import words

    moments = [at for at, word in spoken(commits) if words(word)]
    return zip(moments, late(commits, known), strict=True)


def uploaded(latencies: Sequence[float], audio: float, wall: float, refused: int) -> Row:
    """Seconds that each upload took, all their audio, and from the first to the last."""
    return {"latency": _rounded(latencies), "audio": audio, "wall": wall, "refused": refused}


def saved(name: str, key: Sequence[str]) -> list[Row]:
    """The last rows of results/NAME.jsonl, one for each combination of what `key` names."""
    lines = (HERE / "results" / f"{name}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return list({tuple(row[field] for field in key): row for row in rows}.values())


def sessions_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Live sessions."""
    head = (
        "| system | sessions | let in | first p50 s | p95 | most | final p50 s | p95 | most | "
        "word p50 s | p95 | lag p95 s | words % | core-s per s of audio | peak MB | health ms |\n"
    )
    return head + "|---" * 16 + "|\n" + "\n".join(_session_row(row) for row in rows)


def uploads_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Uploads."""
    head = (
        "| system | at once | uploads | refused | times real time | p50 s | p95 | most | "
        "core-s per s of audio | peak MB | health ms |\n"
    )
    lines = [
        f"| {row['system']} | {row['at_once']} | {len(row['latency'])} | {row['refused']} | "
        f"{row['audio'] / row['wall']:.1f} | {_three(row['latency'])} | "
        f"{_shown(row['core'], '.3f')} | {_shown(row['peak'], '.0f')} | "
        f"{_shown(row['health_ms'], '.0f')} |"
        for row in rows
    ]
    return head + "|---" * 11 + "|\n" + "\n".join(lines)


def _session_row(row: Mapping[str, Any]) -> str:
    words, lag = row["words"], row["lag"]
    cells = [
        str(row["system"]),
        str(row["sessions"]),
        str(row["let_in"]),
        _three(row["first"]),
        _three(row["final"]),
        *(_shown(_at(words, share)) for share in (0.5, 0.95)),
        _shown(_at(lag, 0.95)),
        _shown(row["found"], ".0f"),
        _shown(row["core"], ".3f"),
        _shown(row["peak"], ".0f"),
        _shown(row["health_ms"], ".0f"),
    ]
    return f"| {' | '.join(cells)} |"


def _three(values: Sequence[float]) -> str:
    """Three columns: median, 95th percentile, the most."""
    return " | ".join(_shown(_at(values, share)) for share in (0.5, 0.95, 1.0))


def _at(values: Sequence[float], share: float) -> float | None:
    return percentile(values, share) if values else None


def _shown(value: float | None, form: str = ".2f") -> str:
    show: Callable[[float], str] = lambda number: format(number, form)  # noqa: E731 - typed
    return "" if value is None else show(value)


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(value, 3) for value in values]
