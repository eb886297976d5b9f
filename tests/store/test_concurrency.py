"""Several writers at once, and writers that are killed: nothing lost, nothing half-written."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from certify.errors import InfrastructureError
from certify.store import open_store

ROOT = Path(__file__).parents[2]


def start_writer(database: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.writer", str(database), name, str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_whole(database: Path, acknowledged: list[str]) -> None:
    """Every acknowledged campaign is there, and each campaign has all of its runs or none."""
    with open_store(database) as store:
        found = {campaign.id: store.runs(campaign.id) for campaign in store.campaigns()}
    assert set(acknowledged) <= set(found)
    assert {len(runs) for runs in found.values()} <= {0, 3}
    for campaign_id in acknowledged:
        assert [run.status for run in found[campaign_id]] == ["running", "reserved", "reserved"]
    connection = sqlite3.connect(database)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def test_four_processes_create_the_database_and_write_at_once(tmp_path):
    database = tmp_path / "deep" / "store.sqlite"
    writers = [start_writer(database, f"w{number}", 10) for number in range(4)]
    printed = []
    for writer in writers:
        out, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, err
        printed += [line for line in out.splitlines() if line != "ready"]
    assert len(printed) == 40
    assert_whole(database, printed)


def test_writers_killed_at_any_moment_leave_whole_campaigns(tmp_path):
    database = tmp_path / "store.sqlite"
    chance = random.Random(20261130)
    acknowledged = []
    for turn in range(5):
        writer = start_writer(database, f"turn{turn}", 100_000)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.01, 0.25))
        writer.send_signal(signal.SIGKILL)
        out, _ = writer.communicate(timeout=30)
        # A line cut off by the kill was not printed whole and is not an acknowledgement.
        acknowledged += [line.strip() for line in out.splitlines(keepends=True) if line[-1] == "\n"]
    assert len(acknowledged) > 5
    assert_whole(database, acknowledged)


def test_a_killed_migration_is_repeated(tmp_path):
    database = tmp_path / "store.sqlite"
    for delay_s in (0.35, 0.5, 0.65):
        writer = start_writer(database, "never", 0)
        time.sleep(delay_s)
        writer.kill()
        writer.communicate(timeout=30)
    assert_whole(database, [])


def test_a_writer_waits_for_another_one(tmp_path):
    with open_store(tmp_path / "s.sqlite") as store:
        holder = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        released = threading.Event()

        def write() -> None:
            store.put_reference("d", "/r")
            released.set()

        thread = threading.Thread(target=write)
        thread.start()
        assert not released.wait(0.3)
        assert store.get_reference("d") is None, "readers are not kept waiting"
        holder.execute("COMMIT")
        thread.join(timeout=10)
        assert released.is_set()
        holder.close()


def test_a_lock_that_is_never_released_is_reported(tmp_path):
    from certify.store.campaigns import Store
    from certify.store.database import Database

    open_store(tmp_path / "s.sqlite").close()
    holder = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    store = Store(Database(tmp_path / "s.sqlite", busy_timeout_s=0.01))
    with pytest.raises(InfrastructureError, match="locked by another process") as caught:
        store.put_reference("d", "/r")
    assert caught.value.where == str(tmp_path / "s.sqlite")
    store.close()
    holder.close()
