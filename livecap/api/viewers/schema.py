"""What the file of the history looks like: made, checked, and opened.

Source: SQLite's documentation of `application_id`, `user_version`, WAL and FTS5's trigrams.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from livecap.errors import ConfigError

OURS = int.from_bytes(b"lcap")  # the application id in the file's head
SCHEMA = 1  # what TABLES is; a later one has steps that lead from here to there
BUSY = 5.0  # seconds that a reader may keep the writer, or the other way round
PRIVATE = 0o600  # mode of the file: all that was ever said is in it, and the tokens of links

TABLES = """
CREATE TABLE session(
  key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, model TEXT NOT NULL,
  begun REAL NOT NULL, ended REAL, token TEXT);
CREATE INDEX by_begin ON session(begun, key);
CREATE TABLE line(
  key INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES session(key),
  number INTEGER NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL, UNIQUE(session, number));
"""
# An index of all runs of three letters: it finds parts of words, and scripts without spaces.
INDEX = "CREATE VIRTUAL TABLE words USING fts5(text, content='line', content_rowid='key', \
tokenize='trigram')"
SECURE = (3, 42)  # from this SQLite on, its index forgets what is deleted at once


def prepare(db: sqlite3.Connection, path: Path, *, indexed: bool) -> bool:
    """Checks what is there, and makes what isn't -> whether there is an index."""
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != OURS and (tables or application):
        raise ConfigError(
            f"--history {path} is a file of another program", remedy="Name another one."
        )
    if version > SCHEMA:
        raise ConfigError(
            f"--history {path} was written by a newer livecap (form {version}; this one "
            f"knows {SCHEMA})",
            remedy="Install that livecap again, or name another file.",
        )
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(f"it is damaged ({found.splitlines()[-1]})")
    if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise sqlite3.OperationalError("its folder knows no write-ahead logs")
    if not tables:
        with changing(db):
            for statement in TABLES.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {OURS}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")
    return _index(db, wanted=indexed)


def _index(db: sqlite3.Connection, *, wanted: bool) -> bool:
    known = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'words'").fetchone()[0]
    if not known and not wanted:
        return False
    try:
        if not known:
            with changing(db):
                db.execute(INDEX)
                db.execute("INSERT INTO words(words) VALUES('rebuild')")
        db.execute("SELECT count(*) FROM words WHERE words MATCH '\"what there is not\"'")
    except sqlite3.OperationalError as error:
        if known:
            raise sqlite3.OperationalError(
                f"this Python's SQLite can't write its index ({error})"
            ) from error
        return False
    if sqlite3.sqlite_version_info >= SECURE:
        db.execute("INSERT INTO words(words, rank) VALUES('secure-delete', 1)")
    return True


@contextmanager
def changing(db: sqlite3.Connection) -> Iterator[None]:
    """One transaction: all that is done while it is entered, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def connection(path: Path, *, reading: bool = False) -> sqlite3.Connection:
    """To read the file, or to write it."""
    mode = "ro" if reading else "rw"
    db = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=BUSY,
        isolation_level=None,  # transactions are begun here
        check_same_thread=False,  # it is made in one thread and used in another
    )
    db.execute("PRAGMA temp_store = MEMORY")
    if not reading:
        db.execute("PRAGMA secure_delete = ON")
        # A crash of this process loses nothing; one of the machine may lose the last seconds.
        db.execute("PRAGMA synchronous = NORMAL")
    return db
