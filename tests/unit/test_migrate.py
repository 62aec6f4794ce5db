"""Creating and upgrading a database: once, under a lock, and never over somebody else's tables."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from filecollect.errors import UsageError
from filecollect.store.engine import close, open_engine, reading, transaction
from filecollect.store.migrate import HEAD, MIGRATIONS, REVISIONS, current, is_current, run_migrations, upgrade
from filecollect.store.schema import OUR_TABLES, VERSION_TABLE

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/o.db"
    server: str = request.getfixturevalue("postgres_url")
    return server


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """Return an empty database."""
    engine = open_engine(url, create=True)
    yield engine
    close(engine, truncate=True)


def tables(engine: Engine, schema: str | None = None) -> set[str]:
    """Return the names of all tables."""
    with reading(engine) as conn:
        return set(inspect(conn).get_table_names(schema=schema))


def run(conn_or_engine: Engine, statement: str) -> None:
    """Commit one statement."""
    with transaction(conn_or_engine) as conn:
        conn.exec_driver_sql(statement)


def test_the_known_revisions_are_alembics() -> None:
    """HEAD is kept by hand so that Alembic need not be imported; this keeps it right."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [HEAD]
    assert [revision.revision for revision in script.walk_revisions()] == list(reversed(REVISIONS))


def test_an_empty_database_gets_all_tables_and_the_version(engine: Engine) -> None:
    """Before: no version. After: all tables, at the head; a second time changes nothing."""
    assert current(engine) is None
    upgrade(engine)
    upgrade(engine)
    assert is_current(engine)
    assert tables(engine) == {VERSION_TABLE, *OUR_TABLES}


def test_running_the_migrations_again_changes_nothing(engine: Engine) -> None:
    """Alembic finds its own version row in a database that was made the quick way."""
    upgrade(engine)
    with transaction(engine) as conn:
        run_migrations(conn)
    assert current(engine) == HEAD


def test_a_failed_migration_leaves_nothing_behind(engine: Engine) -> None:
    """Tables and version row are one transaction, on SQLite too."""
    with pytest.raises(KeyboardInterrupt), transaction(engine) as conn:
        run_migrations(conn)
        raise KeyboardInterrupt
    assert tables(engine) == set()


@pytest.mark.parametrize("name", ["worker", "file_event"])
def test_a_foreign_table_with_one_of_our_names_is_refused_and_kept(engine: Engine, name: str) -> None:
    """The sentence names the table; nothing of ours is made beside it."""
    run(engine, f"CREATE TABLE {name} (mine INTEGER)")
    with pytest.raises(UsageError, match=f"'{name}'") as caught:
        upgrade(engine)
    assert caught.value.exit_code == 2
    assert tables(engine) == {name}


def test_other_peoples_tables_are_left_alone(engine: Engine) -> None:
    """Somebody else's `alembic_version` is none of our business."""
    run(engine, "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    run(engine, "INSERT INTO alembic_version VALUES ('theirs')")
    upgrade(engine)
    with reading(engine) as conn:
        assert conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "theirs"
    assert is_current(engine)


def test_a_database_of_a_newer_program_is_refused(engine: Engine) -> None:
    """The sentence names both versions, and the version stays."""
    upgrade(engine)
    run(engine, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(UsageError, match=f"9999.*{HEAD}"):
        upgrade(engine)
    assert current(engine) == "9999"
    assert not is_current(engine)


def test_upgrading_does_not_import_alembic(url: str) -> None:
    """Neither a new database nor one at the head pays for that import."""
    program = (
        "import sys\n"
        "from filecollect.store.engine import close, open_engine\n"
        "from filecollect.store.migrate import upgrade\n"
        "engine = open_engine(sys.argv[1], create=True)\n"
        "upgrade(engine); upgrade(engine); close(engine, truncate=True)\n"
        "print('alembic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


RACER = """
import sys
from filecollect.store.engine import close, open_engine
from filecollect.store.migrate import current, upgrade
engine = open_engine(sys.argv[1], create=True)
print("ready", flush=True)
sys.stdin.readline()
upgrade(engine)
print(current(engine))
close(engine, truncate=False)
"""


def test_processes_that_upgrade_at_once_all_find_it_done(url: str) -> None:
    """Four processes start on one signal: one creates the tables, the others wait for it."""
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = [(racer.communicate()[0], racer.returncode) for racer in racers]
    assert answers == [(f"{HEAD}\n", 0)] * 4


@pytest.mark.parametrize("make", [upgrade, None], ids=["quick", "alembic"])
def test_a_postgresql_schema_holds_all_our_tables(postgres_url: str, make: Callable[[Engine], None] | None) -> None:
    """Nothing gets into the default schema, whichever way the tables are made."""
    engine = open_engine(postgres_url, schema="our data")
    if make is not None:
        make(engine)
    else:
        run(engine, 'CREATE SCHEMA "our data"')
        with transaction(engine) as conn:
            run_migrations(conn)
    assert is_current(engine)
    assert tables(engine, "public") == set()
    assert tables(engine, "our data") == {VERSION_TABLE, *OUR_TABLES}
    close(engine, truncate=True)


def test_the_wheel_carries_the_migrations(tmp_path: Path) -> None:
    """What is installed can upgrade a database, and says that it is typed."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "filecollect/py.typed",
        "filecollect/store/migrations/env.py",
        "filecollect/store/migrations/script.py.mako",
        "filecollect/store/migrations/versions/0001_first.py",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "fixtures/"))]
