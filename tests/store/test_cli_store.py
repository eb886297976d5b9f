"""``certify store``: whole output, and exit codes."""

from __future__ import annotations

import json

import pytest

from certify.cli import main
from certify.store import open_store
from certify.store.filesystem import filesystem_of
from certify.store.migrate import HEAD
from tests.store.conftest import new_campaign


def test_info_makes_nothing(tmp_path, capsys):
    assert main(["store", "info", "--home", str(tmp_path / "h")]) == 0
    assert capsys.readouterr().out == (
        f"database    {tmp_path}/h/certify.sqlite\n"
        f"filesystem  {filesystem_of(tmp_path)}\n"
        "\n"
        "hint: it does not exist yet; certify run creates it\n"
    )
    assert not (tmp_path / "h").exists()


def test_upgrade_then_info(tmp_path, capsys):
    home = ["--home", str(tmp_path)]
    assert main(["store", "upgrade", *home]) == 0
    assert capsys.readouterr().out == (
        f"database    {tmp_path}/certify.sqlite\nschema      none -> {HEAD}\n"
    )
    assert main(["store", "upgrade", *home]) == 0
    assert f"schema      {HEAD}, already up to date\n" in capsys.readouterr().out
    with open_store(home=tmp_path) as store:
        store.create_campaign(new_campaign("c1"))
        store.mark_interrupted("c1")
    assert main(["store", "info", *home]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"schema      {HEAD}",
        "campaigns                    1",
        "runs                         0",
        "gate_results                 0",
        "reference_cache              0",
        "campaigns.interrupted        1",
        "interrupted: c1 in /campaigns/c1",
    ]


def test_info_as_json(tmp_path, capsys):
    with open_store() as store:
        store.create_campaign(new_campaign("c1"))
        store.mark_interrupted("c1")
    assert main(["store", "info", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "certify.store/1"
    assert document["revision"] == document["revision_expected"] == HEAD
    assert document["rows"]["campaigns"] == 1
    assert [campaign["id"] for campaign in document["interrupted"]] == ["c1"]


@pytest.mark.parametrize("action", ["info", "upgrade"])
def test_a_corrupt_file_is_exit_4_and_one_json_document(tmp_path, capsys, action):
    (tmp_path / "certify.sqlite").write_bytes(b"no database" * 200)
    assert main(["store", action, "--home", str(tmp_path), "--json"]) == 4
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["exit_code"] == 4
    assert "corrupt or not a database" in captured.err
