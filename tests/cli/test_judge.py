"""``certify judge``: whole output, exit codes, one JSON document, errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from certify.cli import main
from certify.criteria.judge import judge_campaign, verdict_json
from tests.criteria.synthetic import Campaign


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Campaign().write(tmp_path_factory.mktemp("passing"))


def test_a_pass(passing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", str(passing)]) == 0
    out, err = capsys.readouterr()
    assert "verdict: PASS\nclaim: mechanics verified (tiny, cpu)\n" in out
    assert "resume" in out
    assert err == ""


@pytest.mark.parametrize(
    ("spoil", "code", "verdict", "reason"),
    [
        (lambda c: c.edit_step("candidate", 3, lr=1.0), 1, "FAIL", "candidate step 3: lr is 1.0"),
        (lambda c: c.drop_run("resume"), 3, "INCONCLUSIVE", "the run resume left no records"),
    ],
)
def test_what_does_not_pass(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: object,
    code: int,
    verdict: str,
    reason: str,
) -> None:
    campaign = Campaign()
    spoil(campaign)  # type: ignore[operator]
    folder = campaign.write(tmp_path)
    assert main(["judge", str(folder)]) == code
    out = capsys.readouterr().out
    assert f"verdict: {verdict}\nclaim: none; only a PASS entitles to one\n" in out
    assert reason in " ".join(out.split())


def test_json_is_the_document_of_the_judge(
    passing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(passing), "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["schema"] == "certify.judge/1"
    assert out == verdict_json(judge_campaign(passing))


def test_nothing_is_written(passing: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in passing.rglob("*")}
    main(["judge", str(passing)])
    assert {p: p.stat().st_mtime_ns for p in passing.rglob("*")} == before


def test_a_folder_that_is_no_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "error: cannot read the plan: No such file or directory\n"
        f"  where: {tmp_path}/plan.json\n"
        "  expected: a campaign folder, as certify run --out DIR writes it\n"
        "\n"
        "hint: certify judge DIR needs the folder that holds plan.json and runs/\n"
    )


def test_an_error_with_json_is_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(tmp_path), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["exit_code"], error["where"]) == (2, f"{tmp_path}/plan.json")


def test_a_deeply_nested_plan_is_an_error_of_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for depth in (400, 900, 5_000, 100_000):
        text = (Campaign(steps=3).write(tmp_path) / "plan.json").read_text()
        nested = '{"a": ' * depth + "1" + "}" * depth
        text = text.replace('"beta1": 0.9', f'"beta1": {nested}')
        (tmp_path / "plan.json").write_text(text)
        # A depth that the parser can take is a value that differs.
        assert main(["judge", str(tmp_path)]) in ((1, 2) if depth < 1_000 else (2,)), depth
        capsys.readouterr()
    assert main(["judge", str(tmp_path)]) == 2
    assert "the plan is not JSON: nested more than 100 levels deep" in capsys.readouterr().err


def test_a_broken_record_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Campaign(steps=3).write(tmp_path)
    path = folder / "runs" / "c1-candidate" / "records" / "rank-00001.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:8], "{broken}\n", *lines[9:]]))
    assert main(["judge", str(folder)]) == 2
    assert f"{path}:9" in capsys.readouterr().err


def test_a_truncated_last_line_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed writer: the run did not complete, which the gates say."""
    folder = Campaign().write(tmp_path)
    path = folder / "runs" / "c1-candidate" / "records" / "rank-00000.jsonl"
    text = path.read_text()
    path.write_text(text[: text.index('"step": 150') + 5])
    assert main(["judge", str(folder)]) != 0
    assert "candidate" in capsys.readouterr().out


def test_help_begins_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["judge", "--help"])
    assert caught.value.code == 0
    assert "certify judge DIR --json" in capsys.readouterr().out
