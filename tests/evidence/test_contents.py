"""Nothing leaves the house that is not on the list."""

from __future__ import annotations

import json
import os

import pytest

from certify.errors import InfrastructureError, UsageError
from certify.evidence import archive, logs
from certify.evidence.bundle import write_bundle
from certify.evidence.contents import collect
from certify.evidence.keys import sign, signing_key
from certify.evidence.logs import redacted_log
from certify.evidence.verify import verify
from tests.criteria.synthetic import Campaign
from tests.evidence.conftest import make_key, tiny_campaign, write_campaign


@pytest.fixture
def folder(tmp_path):
    return write_campaign(tmp_path / "c", tiny_campaign())


def test_only_listed_files_go_in(folder):
    run = folder / "runs" / "c1-candidate"
    for name in ("id_rsa", "prepared/weights.bin", "page/index.html", "runs/c1-candidate/x.bin"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("private")
    (run / "spec.json").write_text('{"data": "/home/someone/data"}')
    (run / "records" / "link-00000.jsonl").symlink_to("/etc/passwd")
    (run / "records" / "rank-00009.jsonl").symlink_to("/etc/passwd")
    files, folders = collect(folder)
    assert sorted(files) == [
        "plan.intoto.jsonl",
        "plan.json",
        "runs/c1-candidate/records/rank-00000.jsonl",
        "runs/c1-reference/records/rank-00000.jsonl",
        "verdict.json",
    ]
    assert folders == ["c1-candidate", "c1-reference"]


def test_the_command_line_of_a_campaign_stays_here(folder):
    body = {
        "id": "c1",
        "key": "k",
        "command": ["run", "--data", "/home/someone/secret"],
        "options": {"data": "/home/someone/secret"},
        "phases": [{"name": "candidate", "reason": "no /home/someone/x, ask a@b.example"}],
    }
    (folder / "campaign.json").write_text(json.dumps(body))
    text = collect(folder)[0]["campaign.json"].decode()
    assert "someone" not in text
    assert "a@b" not in text
    assert set(json.loads(text)) == {"id", "phases"}


def test_secrets_in_documents_and_records(folder):
    secret = "hf_" + "a1B2" * 6
    (folder / "environment.json").write_text(json.dumps({"variables": {"X": f"token={secret}"}}))
    record = folder / "runs" / "c1-candidate" / "records" / "rank-00000.jsonl"
    head, *rest = record.read_text().splitlines(keepends=True)
    line = {
        "kind": "environment", "python": "3", "platform": "L", "device": "cpu", "device_name": "C",
        "packages": {}, "effective": {}, "variables": {"A": secret, "B": "2"},
    }  # fmt: skip
    record.write_text(head + json.dumps(line) + "\n" + "".join(rest))
    path, _ = write_bundle(folder, None)
    data = path.read_bytes()
    assert secret.encode() not in data
    assert b'"B": "2"' in data
    verify(path, None)


LOG = """\
starting on node17.cluster.local as alice
Loading /home/alice/weights/model.safetensors with token hf_abcdefghijklmnopqrstuvwxyz
step 12 loss 3.25
Traceback (most recent call last):
  File "/home/alice/src/runner/loop.py", line 12, in step
    loss = model(secret_prompt)
RuntimeError: no space in /data/team/alice/out, mail alice@example.org
[rank1]: ValueError: bad
exitcode  : -9 (pid: 12)
"""


def test_a_log_shows_known_lines_only():
    assert redacted_log(LOG.encode()).decode().splitlines() == [
        "[2 lines left out]",
        "step 12 loss 3.25",
        "Traceback (most recent call last):",
        '  File "loop.py", line 12, in step',
        "[1 line left out]",
        "RuntimeError: no space in out, mail USER@HOST",
        "[rank1]: ValueError: bad",
        "exitcode  : -9 (pid: 12)",
    ]


def test_the_name_of_this_host_is_taken_out():
    line = f"RuntimeError: {os.uname().nodename} did not answer\n"
    if len(os.uname().nodename) > 2:
        assert os.uname().nodename not in redacted_log(line.encode()).decode()


def test_a_long_log_keeps_both_ends(monkeypatch):
    monkeypatch.setattr(logs, "MOST_BYTES", 4000)
    text = "".join(f"step {n}\n" for n in range(9000))
    kept = redacted_log(text.encode()).decode()
    assert kept.startswith("step 0\n")
    assert kept.endswith("step 8999\n")
    assert "bytes left out]" in kept
    assert len(kept) < 4100


def test_too_much_evidence_is_an_error_and_leaves_no_file(folder, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 2000)
    with pytest.raises(InfrastructureError, match="larger than"):
        write_bundle(folder, None)
    assert not list(folder.glob("*.tar")) + list(folder.glob(".*"))


def test_a_folder_that_was_not_judged(tmp_path):
    Campaign().write(tmp_path / "c")
    with pytest.raises(UsageError, match=r"verdict\.json"):
        write_bundle(tmp_path / "c", None)


def test_an_attempt_that_left_nothing_stays_an_attempt(folder):
    """The judge takes the last attempt: forgetting an empty one would change the verdict."""
    (folder / "runs" / "c1-candidate-a2").mkdir()
    from certify.criteria.judge import judge_campaign, verdict_json

    (folder / "verdict.json").write_text(verdict_json(judge_campaign(folder)))
    path, _ = write_bundle(folder, None)
    assert verify(path, None).agrees


def test_keys_that_cannot_sign(tmp_path, monkeypatch):
    monkeypatch.setenv("CERTIFY_SIGNING_KEY", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="not there"):
        signing_key()
    make_key(tmp_path, "k")
    (tmp_path / "k").write_text("no key\n")
    with pytest.raises(UsageError, match="cannot sign"):
        sign(b"x", tmp_path / "k")
