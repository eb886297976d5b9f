"""How a database is found, set up, migrated, and how its failures are told."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from certify.errors import InfrastructureError, UsageError
from certify.store import open_store
from certify.store.database import Database, parse_location
from certify.store.failures import explain
from certify.store.migrate import HEAD, MIGRATIONS, VERSION_TABLE, known_revisions, upgrade
from certify.store.models import Base
from tests.store.conftest import new_campaign

ROOT = Path(__file__).parents[2]


def pragma(database: Database, name: str) -> object:
    return database.read(
        lambda session: session.connection().exec_driver_sql(f"PRAGMA {name}").scalar()
    )


def test_migrations_make_exactly_the_models(tmp_path):
    database = Database(tmp_path / "s.sqlite")
    upgrade(database)

    def difference(connection):
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": True}
        )
        return compare_metadata(context, Base.metadata)

    assert database.connected(difference) == []
    database.close()


def test_the_head_is_the_newest_revision_and_ships_with_the_package():
    assert known_revisions()[-1] == HEAD
    assert MIGRATIONS.parent == Path(importlib.util.find_spec("certify.store").origin).parent
    assert (MIGRATIONS / "script.py.mako").is_file()


def test_upgrading_twice_changes_nothing(tmp_path):
    database = Database(tmp_path / "s.sqlite")
    assert upgrade(database) == (None, HEAD)
    dump = "\n".join(sqlite3.connect(tmp_path / "s.sqlite").iterdump())
    assert upgrade(database) == (HEAD, HEAD)
    assert "\n".join(sqlite3.connect(tmp_path / "s.sqlite").iterdump()) == dump
    database.close()


def test_it_opens_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("CERTIFY_DATABASE", str(tmp_path / "100% 模型" / "s.sqlite"))
    with open_store() as store:
        store.create_campaign(new_campaign("c1"))
    assert (tmp_path / "100% 模型" / "s.sqlite").is_file()


def test_sqlite_is_set_up_for_several_processes(store):
    assert pragma(store.database, "journal_mode") == "wal"
    assert pragma(store.database, "foreign_keys") == 1
    assert pragma(store.database, "synchronous") == 2
    assert pragma(store.database, "busy_timeout") == 30_000


def test_no_write_ahead_log_on_a_network_file_system(tmp_path, monkeypatch):
    open_store(tmp_path / "s.sqlite").close()
    monkeypatch.setattr("certify.store.database.filesystem_of", lambda path: "nfs4")
    with open_store(tmp_path / "s.sqlite") as store:
        assert store.database.on_network
        assert pragma(store.database, "journal_mode") == "delete"
        store.create_campaign(new_campaign("c1"))


def test_a_url_names_a_driver_and_hides_its_password(monkeypatch):
    url = parse_location("postgresql://me:secret@host/name")
    assert url.drivername == "postgresql+psycopg"
    assert "secret" not in url.render_as_string(hide_password=True)
    with pytest.raises(UsageError, match="malformed"):
        parse_location("postgresql://host:port:port/x")
    monkeypatch.setenv("CERTIFY_DATABASE", "nosuch://host/name")
    with pytest.raises(UsageError, match="unknown kind of database 'nosuch'"):
        open_store()


def test_a_newer_schema_is_refused(tmp_path):
    open_store(tmp_path / "s.sqlite").close()
    connection = sqlite3.connect(tmp_path / "s.sqlite")
    connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(InfrastructureError, match=r"newer certify \(schema 9999\)") as caught:
        open_store(tmp_path / "s.sqlite")
    assert caught.value.hint == "pip install --upgrade ascend-certify"


def test_tables_of_others_are_not_touched(tmp_path):
    connection = sqlite3.connect(tmp_path / "s.sqlite")
    connection.execute("CREATE TABLE runs (x)")
    connection.close()
    with pytest.raises(InfrastructureError, match="'runs' that certify did not make"):
        open_store(tmp_path / "s.sqlite")


def test_a_file_that_is_no_database_is_reported(tmp_path):
    (tmp_path / "s.sqlite").write_bytes(b"not a database, but long enough to look at" * 40)
    with pytest.raises(InfrastructureError, match="corrupt or not a database") as caught:
        open_store(tmp_path / "s.sqlite")
    assert caught.value.exit_code == 4
    assert caught.value.where == str(tmp_path / "s.sqlite")


def test_a_damaged_database_is_reported(tmp_path):
    with open_store(tmp_path / "s.sqlite") as store:
        for number in range(200):
            store.put_reference(f"d{number}", "/r" * 100)
        store.database.read(lambda s: None)
    raw = bytearray((tmp_path / "s.sqlite").read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    (tmp_path / "s.sqlite").write_bytes(raw)
    with pytest.raises(InfrastructureError, match="corrupt or not a database"):
        open_store(tmp_path / "s.sqlite").campaigns()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="cannot make the folder") as caught:
        open_store(tmp_path / "file" / "s.sqlite")
    assert "CERTIFY_HOME" in caught.value.hint


def test_a_read_only_database_is_reported(tmp_path, monkeypatch):
    if os.geteuid() == 0:
        # Root may write anywhere: ask SQLite itself to refuse.
        open_store(tmp_path / "s.sqlite").close()
        location = f"sqlite:///file:{tmp_path / 's.sqlite'}?mode=ro&uri=true"
        with (
            open_store(location) as store,
            pytest.raises(InfrastructureError, match="read-only"),
        ):
            store.put_reference("d", "/r")
        return
    open_store(tmp_path / "s.sqlite").close()
    (tmp_path / "s.sqlite").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(InfrastructureError, match="read-only"):
            open_store(tmp_path / "s.sqlite").put_reference("d", "/r")
    finally:
        tmp_path.chmod(0o755)


def test_a_full_disk_is_reported_and_leaves_what_was_stored(store):
    store.create_campaign(new_campaign("c1"))
    pages = pragma(store.database, "page_count")
    pragma(store.database, f"max_page_count={pages}")
    with pytest.raises(InfrastructureError, match=r"disk .* is full"):
        store.put_reference("d", "x" * 100_000)
    assert store.get_reference("d") is None
    assert store.get_campaign("c1").id == "c1"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('connection to server at "10.0.0.1", port 5432 failed: Connection refused', "reached"),
        ('FATAL:\n password authentication failed for user "me"', "refused access"),
        ("disk I/O error", "failed"),
        ("something new", "the database failed: something new"),
    ],
)
def test_what_drivers_say_is_told_in_our_words(said, told):
    error = explain(RuntimeError(said), "db")
    assert told in str(error)
    assert " ".join(said.split()) in str(error)


@pytest.mark.parametrize("missing", ["sqlalchemy", "alembic"])
def test_a_missing_library_is_a_usage_error(monkeypatch, missing):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else real(name)
    )
    with pytest.raises(UsageError, match=f"needs {missing}") as caught:
        open_store()
    assert caught.value.hint == 'pip install "ascend-certify[store]"'


def test_importing_the_package_imports_no_database_library():
    code = (
        "import sys, certify.store, certify.home, certify.cli.store;"
        "print(sorted({'sqlalchemy', 'alembic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "[]\n"
