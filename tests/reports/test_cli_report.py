"""``certify report`` and ``python -m reports``."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from certify.cli import main
from certify.store import NewCampaign, open_store
from reports.__main__ import main as reports_main
from tests.reports.make_campaign import RECIPE, make_campaign

ROOT = Path(__file__).parents[2]
CAMPAIGN = f"{RECIPE}-20261130-220000-4f1c"


@pytest.fixture
def folder(tmp_path):
    return make_campaign(tmp_path / "campaign", "interrupted")


def remember(folder: Path) -> None:
    with open_store() as store:
        store.create_campaign(
            NewCampaign(
                CAMPAIGN, RECIPE, "fsdp2", "tiny", "cpu", "pretrain", "v1", "c", "k", str(folder)
            )
        )
        store.reserve_runs(CAMPAIGN, [("run-of-the-store", "candidate", "candidate")])


def test_a_folder_gets_its_page_within(folder, capsys):
    assert main(["report", "build", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}/page/index.html\n"
    assert (folder / "page" / "index.html").is_file()


def test_a_campaign_by_its_id_with_the_runs_of_the_store(folder, tmp_path, capsys):
    remember(folder)
    assert main(["report", "build", CAMPAIGN, str(tmp_path / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"schema": "certify.report/1", "page": f"{tmp_path}/out/index.html"}
    assert "run-of-the-store" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_no_store_is_made_for_a_page(folder, tmp_path):
    assert main(["report", "build", str(folder)]) == 0
    assert not (tmp_path / "home").exists()


def test_a_broken_store_does_not_stop_a_page(folder, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "certify.sqlite").write_bytes(b"no database" * 200)
    assert reports_main(["campaign", str(folder), str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    ("named", "code", "said"),
    [
        ("no/such/folder", 2, "no such folder"),
        ("unknown-id", 2, "no campaign 'unknown-id' in the store"),
    ],
)
def test_what_does_not_exist_is_a_usage_error(named, code, said, capsys):
    assert main(["report", "build", named]) == code
    assert said in capsys.readouterr().err


def test_a_campaign_whose_folder_is_gone(folder, capsys):
    remember(folder / "moved")
    assert main(["report", "build", CAMPAIGN]) == 2
    assert "the campaign's folder is gone" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_library_is_a_usage_error(folder, monkeypatch, capsys, missing):
    real = importlib.util.find_spec
    monkeypatch.setattr("reports.render.find_spec", lambda n: None if n == missing else real(n))
    assert main(["report", "build", str(folder)]) == 2
    assert f"pages need {missing}" in capsys.readouterr().err


def test_as_a_process_from_another_folder(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "reports", "campaign", str(folder), "out"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "CERTIFY_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tmp_path}/out/index.html\n"
    assert (tmp_path / "out" / "index.html").is_file()


def test_errors_of_the_process_have_the_form_of_all_errors(tmp_path, capsys):
    assert reports_main(["campaign", str(tmp_path), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: no campaign in this folder\n")
