"""Captions in a file of SQLite: opened, checked, written and read. Blocks; for threads.

Source: SQLite's documentation of WAL, `secure_delete` and FTS5.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from livecap.api.viewers.lock import Lock
from livecap.api.viewers.schema import PRIVATE, SECURE, changing, connection, prepare
from livecap.api.viewers.search import has_all
from livecap.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as it is kept."""

    key: int
    id: str
    model: str
    begun: float  # Unix seconds
    ended: float | None
    token: str | None
    lines: int
    preview: str


ROW = """SELECT key, id, model, begun, ended, token,
  (SELECT count(*) FROM line WHERE session = s.key),
  coalesce((SELECT text FROM line WHERE session = s.key AND text <> '' ORDER BY number LIMIT 1), '')
  FROM session s """


class Archive:
    """The file, with the one connection that writes it. What it raises is sqlite3.Error."""

    def __init__(self, path: Path, *, indexed: bool = True) -> None:
        """Opens the file, or makes it. Raises ConfigError where it can't be used; `indexed`:
        whether SQLite's full-text search is to be used if it is there.
        """
        self.path = path
        self._lock: Lock | None = None
        self._writer: sqlite3.Connection | None = None
        self._is_unclean = False  # something was deleted that may still be in the files
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():
                raise OSError(0, "it is no file")
            self._lock = Lock(path)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
            self._writer = connection(path)
            self.is_indexed = prepare(self._writer, path, indexed=indexed)
            for own in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
                if own.exists():
                    own.chmod(PRIVATE)
        except OSError as error:
            self.close()
            raise ConfigError(
                f"--history {path} can't be used: {error.strerror or error}",
                remedy="Name a file in a folder that this user may write to.",
            ) from error
        except sqlite3.Error as error:
            self.close()
            raise ConfigError(
                f"--history {path} can't be used: {error}",
                remedy="Name another file, or put this one back from a copy that is whole.",
            ) from error
        except ConfigError:
            self.close()
            raise

    def close(self) -> None:
        """No more of it; SQLite's own files beside it go, too."""
        if self._writer:
            self._writer.close()
        if self._lock:
            self._lock.release()
        self._writer = self._lock = None

    # Writing: one thread at a time

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One transaction: all that is done while it is entered, or nothing of it."""
        with changing(self._db):
            yield

    def begin(self, id: str, model: str, begun: float) -> None:
        """A session; one that was over goes on."""
        insert = "INSERT INTO session(id, model, begun) VALUES(?, ?, ?)"
        self._db.execute(f"{insert} ON CONFLICT(id) DO UPDATE SET ended = NULL", (id, model, begun))

    def add(self, id: str, number: int, text: str, data: str) -> None:
        """A line of a session, unless that was deleted; or the line is there."""
        done = self._db.execute(
            "INSERT OR IGNORE INTO line(session, number, text, data) "
            "SELECT key, ?, ?, ? FROM session WHERE id = ?",
            (number, text, data, id),
        )
        if self.is_indexed and done.rowcount > 0:
            self._db.execute("INSERT INTO words(rowid, text) VALUES(?, ?)", (done.lastrowid, text))

    def end(self, id: str, ended: float) -> None:
        """The session is over."""
        self._db.execute("UPDATE session SET ended = ? WHERE id = ?", (ended, id))

    def share(self, id: str, token: str | None) -> None:
        """Who knows the token may read it."""
        self._db.execute("UPDATE session SET token = ? WHERE id = ?", (token, id))

    def forget(self, id: str) -> None:
        """Delete a session, and all that was said in it."""
        self._delete("id = ?", (id,))

    def forget_before(self, ended: float) -> None:
        """Delete the sessions that were over by then; Unix seconds."""
        self._delete("ended < ?", (ended,))

    def mend(self) -> None:
        """After a crash: what was under way is over, and what is empty goes."""
        last = "SELECT max(json_extract(data, '$.end_ms')) FROM line WHERE session = session.key"
        self._db.execute(
            f"UPDATE session SET ended = begun + coalesce(({last}), 0) / 1000.0 WHERE ended IS NULL"
        )
        self._db.execute(
            "DELETE FROM session WHERE token IS NULL AND key NOT IN (SELECT session FROM line)"
        )

    def _delete(self, which: str, values: tuple[object, ...]) -> None:
        lines = f"session IN (SELECT key FROM session WHERE {which})"
        if self.is_indexed:
            self._db.execute(
                "INSERT INTO words(words, rowid, text) "
                f"SELECT 'delete', key, text FROM line WHERE {lines}",
                values,
            )
        self._db.execute(f"DELETE FROM line WHERE {lines}", values)
        deleted = self._db.execute(f"DELETE FROM session WHERE {which}", values)
        self._is_unclean = self._is_unclean or deleted.rowcount > 0

    def clean(self) -> None:
        """What was deleted is in the files no more. Outside of a transaction."""
        if not self._is_unclean:
            return
        if self.is_indexed and sqlite3.sqlite_version_info < SECURE:
            self._db.execute("INSERT INTO words(words) VALUES('optimize')")
        (is_busy, _, _) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise sqlite3.OperationalError("what was deleted is still being read")
        self._is_unclean = False

    @property
    def _db(self) -> sqlite3.Connection:
        if self._writer is None:
            raise sqlite3.ProgrammingError("the history is closed")
        return self._writer

    # Reading: any thread

    def load(self, id: str) -> tuple[StoredSession, list[tuple[int, str]]] | None:
        """A session, and the numbers and data of its lines."""
        with self._reading() as db:
            row = db.execute(f"{ROW} WHERE id = ?", (id,)).fetchone()
            if row is None:
                return None
            lines = "SELECT number, data FROM line WHERE session = ? ORDER BY number"
            return StoredSession(*row), db.execute(lines, (row[0],)).fetchall()

    def sessions(
        self, words: Sequence[str], phrase: str, after: str, limit: int, matches: int
    ) -> list[tuple[StoredSession, list[str]]]:
        """Sessions, the newest first, with the data of the first lines that have all words.

        `phrase` is what FTS5 is asked for them; `after`: only those before that session.
        """
        where, values = ["1"], list[object]()
        if after:
            where.append("(begun, key) < (SELECT begun, key FROM session WHERE id = ?)")
            values.append(after)
        condition, sought = "", list[object]()
        if words:
            condition, sought = "has_all(text)", []
            if phrase and self.is_indexed:
                condition += " AND key IN (SELECT rowid FROM words WHERE words MATCH ?)"
                sought = [phrase]
            where.append(f"key IN (SELECT session FROM line WHERE {condition})")
            values += sought
        rows_of = f"{ROW} WHERE {' AND '.join(where)} ORDER BY begun DESC, key DESC LIMIT ?"
        lines = f"SELECT data FROM line WHERE session = ? AND {condition} ORDER BY number LIMIT ?"
        with self._reading(lambda text: has_all(text, words)) as db:
            rows = [StoredSession(*found) for found in db.execute(rows_of, (*values, limit))]
            if not words:
                return [(row, []) for row in rows]
            return [
                (row, [data for (data,) in db.execute(lines, (row.key, *sought, matches))])
                for row in rows
            ]

    @contextmanager
    def _reading(
        self, wanted: Callable[[str], bool] = lambda text: True
    ) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file, with the function has_all."""
        with closing(connection(self.path, reading=True)) as db:
            db.create_function("has_all", 1, wanted, deterministic=True)
            db.execute("BEGIN")
            yield db
