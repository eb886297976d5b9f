"""Reading a campaign folder: what is there, and what is said to be missing."""

from __future__ import annotations

import shutil

import pytest

from certify.errors import UsageError
from reports.source import read_source
from tests.reports.conftest import edit
from tests.reports.make_campaign import make_campaign

RUN = "qwen3-235b-a22b-4k-fsdp2-20261130-220000-4f1c"


def test_a_whole_campaign_lacks_nothing(made):
    source = read_source(made("pass")[0])
    assert source.missing == ()
    assert source.campaign.recipe_id == "qwen3-235b-a22b-4k-fsdp2"
    assert source.verdict.gate("loss-curve").check("drift").limit == 0.002
    assert source.plan.save_step == 100
    assert {phase: len(run.files) for phase, run in source.runs.items()} == {
        "reference": 1,
        "reference-again": 1,
        "candidate": 2,
        "candidate-again": 2,
        "resume": 2,
        "compare": 1,
    }


def test_an_interrupted_campaign_says_what_it_lacks(made):
    assert read_source(made("interrupted")[0]).missing == (
        "verdict.json was not written",
        "the records of candidate are cut off after step 73: the writer was killed",
        "the run candidate-again left no records",
        "the run resume left no records",
        "the run compare left no records",
    )


def test_damage_is_told_and_does_not_stop_the_page(tmp_path):
    folder = make_campaign(tmp_path / "c")
    (folder / "plan.json").write_text("{")
    (folder / "recipe.json").write_text("[1]")
    records = folder / "runs" / f"{RUN}-candidate" / "records" / "rank-00001.jsonl"
    records.write_text("not a record\n" + records.read_text())
    (folder / "runs" / f"{RUN}-resume" / "records" / "rank-00000.jsonl").unlink()
    shutil.rmtree(folder / "runs" / f"{RUN}-reference")
    missing = read_source(folder).missing
    assert missing == (
        "plan.json is not JSON",
        "recipe.json is not a JSON object",
        "the run reference left no records",
        "the records of candidate cannot be read: malformed record: not JSON "
        f"(runs/{RUN}-candidate/records/rank-00001.jsonl:1)",
        "the run resume lacks the records of rank 0",
    )


@pytest.mark.parametrize("run_id", ["../outside", "..", "", "/etc", "a\\b", "a\0b"])
def test_a_run_id_cannot_lead_out_of_the_folder(tmp_path, run_id):
    folder = make_campaign(tmp_path / "c")
    shutil.copytree(folder / "runs" / f"{RUN}-candidate", folder / "outside")
    edit(folder / "campaign.json", lambda body: body["phases"][3].update(run_id=run_id))
    run = read_source(folder).runs["candidate"]
    assert run.files == ()
    assert run.problem == "the run id is not the name of a folder"


def test_without_campaign_json_the_plan_tells_the_runs(tmp_path):
    folder = make_campaign(tmp_path / "c")
    (folder / "campaign.json").unlink()
    source = read_source(folder)
    assert source.campaign.id == RUN
    assert source.run("candidate").first.header.world_size == 2


def test_a_folder_without_a_campaign_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no campaign in this folder") as caught:
        read_source(tmp_path)
    assert caught.value.where == str(tmp_path)


def test_documents_of_odd_shape_are_read_as_far_as_they_go(tmp_path):
    folder = make_campaign(tmp_path / "c")
    odd = {"phases": "none", "command": 7, "id": None, "created_unix_s": "today"}
    edit(folder / "campaign.json", lambda body: body.update(odd))
    edit(folder / "verdict.json", lambda body: body.update(gates=[1, {"gate": "x"}], criteria=[]))
    edit(folder / "plan.json", lambda body: body.update(resume=[], expected=None))
    source = read_source(folder)
    assert (source.campaign.phases, source.campaign.command) == ((), ())
    assert [gate.gate for gate in source.verdict.gates] == ["x"]
    assert source.plan.save_step is None
