"""Opening databases, the two kinds of transaction, and what errors mean."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from filecollect.errors import DatabaseUnavailable, FilecollectError, InvariantError, LeaseLost, UsageError
from filecollect.store.engine import (
    checkpoint_wal,
    close,
    database_error,
    database_url,
    db_now,
    open_engine,
    reading,
    schema_of,
    transaction,
)
from filecollect.store.filesystems import file_system, network_file_system
from filecollect.store.types import DatabaseNow


def make(path: Path, **options: object) -> Engine:
    """Open a database with one table `t` of one unique column."""
    engine = open_engine(str(path), create=True, **options)  # type: ignore[arg-type]
    with transaction(engine) as conn:
        conn.exec_driver_sql("CREATE TABLE IF NOT EXISTS t (x INTEGER UNIQUE)")
    return engine


def insert(engine: Engine, value: int) -> None:
    """Commit one row."""
    with transaction(engine) as conn:
        conn.exec_driver_sql(f"INSERT INTO t VALUES ({value})")


def rows(engine: Engine) -> list[int]:
    """Return the values of `t` in order."""
    with reading(engine) as conn:
        return [row[0] for row in conn.exec_driver_sql("SELECT x FROM t ORDER BY x")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the test's database goes."""
    return tmp_path / "o.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    """Return a database with the table `t`, whose waits are short."""
    engine = make(path, busy_timeout_s=0.05)
    yield engine
    close(engine, truncate=False)


@pytest.mark.parametrize(
    ("written", "drivername", "database"),
    [
        ("postgres://h/d", "postgresql+psycopg", "d"),
        ("postgresql://u@h:5/d", "postgresql+psycopg", "d"),
        ("postgresql://", "postgresql+psycopg", None),
        ("sqlite:////var/o.db", "sqlite", "/var/o.db"),
        ("/var/o.db", "sqlite", "/var/o.db"),
    ],
)
def test_a_url_or_a_bare_path_names_a_database(written: str, drivername: str, database: str | None) -> None:
    """Both spellings of PostgreSQL mean psycopg; a bare path is SQLite."""
    url = database_url(written)
    assert (url.drivername, url.database) == (drivername, database)


def test_a_relative_sqlite_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the directory later must not change the database."""
    monkeypatch.chdir(tmp_path)
    assert database_url("sqlite:///o.db").database == str(tmp_path / "o.db")
    assert database_url("sub/o.db").database == str(tmp_path / "sub" / "o.db")


@pytest.mark.parametrize("written", ["sqlite://", "sqlite:///:memory:", "sqlite://host/o.db", "mysql://h/d", "a://b:c"])
def test_a_url_that_names_no_usable_database_is_a_usage_error(written: str) -> None:
    """In-memory, other products and broken URLs are refused before anything is opened."""
    with pytest.raises(UsageError):
        database_url(written)


def test_a_password_is_not_in_the_message_of_a_broken_url() -> None:
    """Messages end up in logs."""
    with pytest.raises(UsageError) as caught:
        database_url("postgresql://u:sesame@h:port/d")
    assert "sesame" not in f"{caught.value} {caught.value.hint}"


def test_a_missing_file_is_not_created_unless_asked(path: Path) -> None:
    """`status` in the wrong directory must not leave an empty database behind."""
    with pytest.raises(UsageError, match="no such database"):
        open_engine(str(path))
    assert not path.exists()


def test_a_new_database_is_created_by_its_first_write_only(path: Path) -> None:
    """Opening for creation touches nothing yet; closing neither."""
    close(open_engine(str(path), create=True), truncate=True)
    assert not path.exists()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """The sentence says what is missing and where."""
    with pytest.raises(UsageError, match="directory does not exist") as caught:
        open_engine(str(tmp_path / "no" / "o.db"), create=True)
    assert caught.value.path == str(tmp_path / "no" / "o.db")


def test_a_directory_a_pipe_and_a_text_file_are_no_databases(tmp_path: Path) -> None:
    """Each is refused with a sentence of its own, and the text file stays as it was."""
    os.mkfifo(tmp_path / "pipe")
    notes = tmp_path / "notes.txt"
    notes.write_text("id,name\n" * 1000)
    with pytest.raises(UsageError, match="got a directory"):
        open_engine(str(tmp_path), create=True)
    with pytest.raises(UsageError, match="pipe"):
        open_engine(str(tmp_path / "pipe"), create=True)
    with pytest.raises(UsageError, match="not a SQLite database") as caught:
        open_engine(str(notes), create=True)
    assert caught.value.path == str(notes)
    assert notes.read_text() == "id,name\n" * 1000


def test_a_file_without_permission_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable database is a usage error, not a retry. (Root may read everything, hence the patch.)"""
    close(make(path), truncate=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError, match="permission"):
        open_engine(str(path))


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "q?x=1#y.db", "ünï.db"])
def test_any_file_name_works(tmp_path: Path, name: str) -> None:
    """Characters that are special in URIs are only characters in a path."""
    engine = make(tmp_path / name)
    insert(engine, 1)
    close(engine, truncate=True)
    assert os.listdir(tmp_path) == [name]


def test_settings_follow_the_durability_asked_for(tmp_path: Path) -> None:
    """Relaxed is NORMAL (1), full is FULL (2); only the checkpointer moves the WAL by itself."""
    wanted = {"relaxed": (1, 0), "full": (2, 1000)}
    for durability, expected in wanted.items():
        engine = make(tmp_path / f"{durability}.db", durability=durability, checkpointer=durability == "full")
        with transaction(engine) as conn:
            found = tuple(
                conn.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "wal_autocheckpoint")
            )
            assert conn.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        close(engine, truncate=True)
        assert found == expected


def test_a_transaction_commits_at_its_end_and_rolls_back_on_any_exception(engine: Engine) -> None:
    """A lost lease must leave no row behind."""
    insert(engine, 1)
    with pytest.raises(LeaseLost), transaction(engine) as conn:
        conn.exec_driver_sql("INSERT INTO t VALUES (2)")
        raise LeaseLost("taken over")
    assert rows(engine) == [1]


def test_a_second_writer_waits_at_begin_and_then_gives_up(engine: Engine) -> None:
    """BEGIN IMMEDIATE: the second one never gets into its body, and can begin once the first is done."""
    entered = False
    with transaction(engine):
        with pytest.raises(DatabaseUnavailable, match="busy") as caught, transaction(engine):
            entered = True
        assert isinstance(caught.value.__cause__, Exception)
    assert not entered
    insert(engine, 1)
    assert rows(engine) == [1]


def test_a_second_writer_that_waits_long_enough_sees_the_first_ones_rows(path: Path) -> None:
    """Read-then-write in two threads counts right: nobody writes on a stale snapshot."""
    engine = make(path)
    insert(engine, 0)

    def add_ten() -> None:
        for _ in range(10):
            with transaction(engine) as conn:
                top = conn.exec_driver_sql("SELECT max(x) FROM t").scalar()
                conn.exec_driver_sql(f"INSERT INTO t VALUES ({top} + 1)")

    threads = [threading.Thread(target=add_ten) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = rows(engine)
    close(engine, truncate=True)
    assert found == list(range(31))


def test_a_reader_neither_blocks_a_writer_nor_sees_its_rows(engine: Engine) -> None:
    """A reading transaction is a snapshot."""
    insert(engine, 1)
    with reading(engine) as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM t").scalar() == 1
        insert(engine, 2)
        assert conn.exec_driver_sql("SELECT count(*) FROM t").scalar() == 1
    assert rows(engine) == [1, 2]


def test_a_reader_goes_on_while_a_writer_holds_the_lock(engine: Engine) -> None:
    """`status` answers during the longest commit."""
    insert(engine, 1)
    with transaction(engine) as conn:
        conn.exec_driver_sql("INSERT INTO t VALUES (2)")
        assert rows(engine) == [1]


def test_a_reading_transaction_cannot_write_and_its_connection_can_again_later(engine: Engine) -> None:
    """The refusal belongs to the transaction, not to the pooled connection."""
    with pytest.raises(UsageError, match="cannot be written"), reading(engine) as conn:
        conn.exec_driver_sql("INSERT INTO t VALUES (1)")
    insert(engine, 2)
    assert rows(engine) == [2]


def test_reading_a_database_does_not_change_the_file(path: Path) -> None:
    """Somebody's own database in another journal mode keeps it until we write."""
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE t (x INTEGER UNIQUE)")
    raw.commit()
    raw.close()
    before = path.read_bytes()
    engine = open_engine(str(path))
    assert rows(engine) == []
    close(engine, truncate=True)
    assert path.read_bytes() == before


def test_the_switch_to_wal_waits_for_another_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite answers "locked" at once when the journal mode cannot be changed, so we must ask again."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE t (x INTEGER UNIQUE)")
    other.execute("BEGIN IMMEDIATE")
    waits: list[float] = []

    def give_way(seconds: float) -> None:
        waits.append(seconds)
        other.execute("COMMIT")

    monkeypatch.setattr("filecollect.store.engine.time.sleep", give_way)
    engine = open_engine(str(path))
    insert(engine, 1)
    assert rows(engine) == [1]
    assert len(waits) == 1
    close(engine, truncate=True)
    other.close()


def test_one_file_is_left_after_close(path: Path) -> None:
    """The WAL is moved into the file, however much is in it."""
    engine = make(path)
    insert(engine, 1)
    assert sorted(os.listdir(path.parent)) == ["o.db", "o.db-shm", "o.db-wal"]
    close(engine, truncate=True)
    assert os.listdir(path.parent) == ["o.db"]


def test_closing_while_another_process_has_it_open_empties_the_wal_and_loses_nothing(path: Path) -> None:
    """The other one keeps its companions, the WAL without content, and sees the rows."""
    engine = make(path)
    other = sqlite3.connect(path)
    other.execute("SELECT count(*) FROM t").fetchone()
    insert(engine, 1)
    close(engine, truncate=True)
    assert Path(f"{path}-wal").stat().st_size == 0
    assert other.execute("SELECT x FROM t").fetchall() == [(1,)]
    other.close()


def test_checkpointing_says_whether_a_reader_holds_the_wal_back(engine: Engine) -> None:
    """A long reader keeps the WAL from being moved; afterwards all of it can be."""
    insert(engine, 1)
    with reading(engine) as conn:
        conn.exec_driver_sql("SELECT count(*) FROM t").scalar()
        insert(engine, 2)
        assert not checkpoint_wal(engine)
    assert checkpoint_wal(engine)


def test_a_constraint_is_not_translated(engine: Engine) -> None:
    """Only trouble with the database itself is ours to name; a doubled key is the caller's."""
    insert(engine, 1)
    with pytest.raises(IntegrityError):
        insert(engine, 1)


def test_bound_values_stay_out_of_messages(engine: Engine) -> None:
    """Rows may hold secrets, and messages reach logs."""
    with pytest.raises(IntegrityError) as caught, transaction(engine) as conn:
        conn.exec_driver_sql("INSERT INTO t VALUES (?)", (421337,))
        conn.exec_driver_sql("INSERT INTO t VALUES (?)", (421337,))
    assert "421337" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, DatabaseUnavailable),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, DatabaseUnavailable),
        (sqlite3.SQLITE_FULL, DatabaseUnavailable),
        (sqlite3.SQLITE_IOERR_FSYNC, DatabaseUnavailable),
        (sqlite3.SQLITE_READONLY, UsageError),
        (sqlite3.SQLITE_READONLY_DBMOVED, DatabaseUnavailable),
        (sqlite3.SQLITE_CORRUPT, FilecollectError),
        (sqlite3.SQLITE_NOTADB, UsageError),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, type(None)),
        (sqlite3.SQLITE_MISMATCH, type(None)),
    ],
)
def test_sqlite_codes_say_what_to_do(code: int, expected: type) -> None:
    """Extended codes mean what their family means, but for a database that was moved away."""
    problem = sqlite3.OperationalError("driver's words")
    problem.sqlite_errorcode = code
    assert type(database_error(problem)) is expected


def test_a_full_disk_is_unavailable_and_rolls_back(engine: Engine) -> None:
    """max_page_count fills the database as a full disk would; the rows before it stand."""
    insert(engine, 1)
    with pytest.raises(DatabaseUnavailable, match="full"), transaction(engine) as conn:
        conn.exec_driver_sql("CREATE TABLE big (b BLOB)")
        pages = conn.exec_driver_sql("PRAGMA page_count").scalar()
        conn.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        conn.exec_driver_sql("INSERT INTO big VALUES (zeroblob(1000000))")
    assert rows(engine) == [1]


def test_the_database_clock_is_utc_and_can_be_shifted(engine: Engine) -> None:
    """A lease ends 90 s after the database's now, whatever the local clock."""
    with transaction(engine) as conn:
        before = db_now(conn)
        until = conn.scalar(select(DatabaseNow(90)))
        past = conn.scalar(select(DatabaseNow(-0.25)))
        after = db_now(conn)
    assert until is not None
    assert past is not None
    assert abs(before - datetime.now(UTC)) < timedelta(minutes=1)
    assert before + timedelta(seconds=90) <= until <= after + timedelta(seconds=90)
    assert before - timedelta(seconds=0.25) <= past <= after


def test_an_engine_is_refused_after_a_fork(path: Path) -> None:
    """SQLite's locks do not survive a fork, so using the parent's engine must not go unnoticed."""
    engine = make(path)
    program = os.fork()
    if program == 0:
        try:
            insert(engine, 1)
        except InvariantError:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(program, 0)
    close(engine, truncate=True)
    assert os.waitstatus_to_exitcode(status) == 7


MOUNTS = r"""/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/me/local tmpfs rw 0 0
//box/share /mnt/my\040share cifs rw 0 0
me@box: /mnt/ssh fuse.sshfs rw 0 0
none /sandbox 9p rw,trans=fd 0 0
C:\134 /mnt/c 9p rw,aname=drvfs;path=C:\ 0 0
/dev/sdb1 /data ext4 rw 0 0
server:/data /data nfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/o.db", "ext4"),
        ("/home/me/o.db", "nfs4"),
        ("/homes/o.db", "ext4"),
        ("/home/me/local/o.db", "tmpfs"),
        ("/mnt/my share/o.db", "cifs"),
        ("/mnt/ssh/o.db", "fuse.sshfs"),
        ("/sandbox/o.db", "9p"),
        ("/mnt/c/o.db", "9p-drvfs"),
        ("/data/o.db", "nfs"),
    ],
)
def test_the_longest_and_latest_mount_says_the_file_system(path: str, kind: str) -> None:
    """A path belongs to the innermost mount, and of two at one place to the later."""
    assert file_system(path, MOUNTS) == kind


def test_a_database_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with the kind and the way out, and nothing is created."""
    mounts = tmp_path / "mounts"
    mounts.write_text("server:/x / nfs4 rw 0 0\n")
    assert network_file_system(tmp_path, mounts) == "nfs4"
    monkeypatch.setattr("filecollect.store.engine.network_file_system", lambda path: network_file_system(path, mounts))
    with pytest.raises(UsageError, match=r"network file system \(nfs4\)"):
        open_engine(str(tmp_path / "o.db"), create=True)
    assert not (tmp_path / "o.db").exists()


def test_postgresql_transactions_commit_roll_back_and_read_snapshots(postgres_url: str) -> None:
    """The same promises as on SQLite, on a real server."""
    engine = open_engine(postgres_url, durability="full")
    with transaction(engine) as conn:
        conn.exec_driver_sql("CREATE TABLE t (x INTEGER UNIQUE)")
        assert conn.exec_driver_sql("SHOW TIME ZONE").scalar() == "UTC"
        assert conn.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    insert(engine, 1)
    with pytest.raises(LeaseLost), transaction(engine) as conn:
        conn.exec_driver_sql("INSERT INTO t VALUES (2)")
        raise LeaseLost("taken over")
    with reading(engine) as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM t").scalar() == 1
        insert(engine, 3)
        assert conn.exec_driver_sql("SELECT count(*) FROM t").scalar() == 1
    with pytest.raises(DatabaseUnavailable, match="read-only"), reading(engine) as conn:
        conn.exec_driver_sql("INSERT INTO t VALUES (4)")
    with pytest.raises(IntegrityError):
        insert(engine, 1)
    assert rows(engine) == [1, 3]
    close(engine, truncate=True)


def test_a_lost_postgresql_connection_is_unavailable_and_the_next_one_works(postgres_url: str) -> None:
    """A server that drops us (restart, failover) costs one transaction, not the process."""
    engine = open_engine(postgres_url)
    with transaction(engine) as conn:
        conn.exec_driver_sql("CREATE TABLE t (x INTEGER UNIQUE)")
    with pytest.raises(DatabaseUnavailable), transaction(engine) as conn:
        conn.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
    insert(engine, 1)
    assert rows(engine) == [1]
    close(engine, truncate=False)


def test_a_postgresql_server_that_is_away_is_unavailable_and_a_wrong_name_is_a_mistake(postgres_url: str) -> None:
    """Waiting helps with the first and never with the second."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(DatabaseUnavailable):
            open_engine(f"postgresql://u:sesame@127.0.0.1:{port}/d")
    with pytest.raises(UsageError, match="does not exist"):
        open_engine(make_url(postgres_url).set(drivername="postgresql+psycopg", database="nowhere"))


def test_a_postgresql_schema_is_remembered_by_the_engine(postgres_url: str) -> None:
    """Statements on our tables are translated; SQLite has no schemas."""
    engine = open_engine(postgres_url, schema="our")
    assert schema_of(engine) == "our"
    close(engine, truncate=False)
    with pytest.raises(UsageError, match="needs PostgreSQL"):
        open_engine("o.db", create=True, schema="our")


def test_a_missing_driver_names_the_extra_to_install() -> None:
    """Without psycopg the sentence is a command that helps."""
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from filecollect.errors import UsageError\n"
        "from filecollect.store.engine import open_engine\n"
        "try: open_engine('postgresql://h/d')\n"
        "except UsageError as problem: print(problem.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "pip install 'filecollect[postgres]'\n"
