"""``certify weights verify`` as a command: whole output and exit codes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from certify.cli import main
from tests.weights.make import checkpoint

ROOT = Path(__file__).parents[2]
INDEX = "model.safetensors.index.json"


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["weights", "verify", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_good_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    code, out, err = call(capsys, str(folder))
    assert (code, err) == (0, "")
    assert out == (
        f"{folder}: qwen3_moe, 2 shards, 33 tensors, 0.0 GB\n"
        "tokenizer: 10 ids, 12 rows of the embedding\n"
        "0 errors, 0 notes\n"
    )


def test_findings_and_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    (folder / "model-00002-of-00002.safetensors").unlink()
    code, out, _ = call(capsys, str(folder), "--recipe", "qwen3-8b-4k-mcore")
    assert code == 1
    lines = out.splitlines()
    assert (
        lines[1] == "error  W13  config.json: model_type: qwen3_moe (expected qwen3, as published)"
    )
    assert "error  W01  model-00002-of-00002.safetensors: 1 of 2 shards are missing" in lines
    assert lines[-4:] == [
        "download:",
        f"  modelscope download --model Qwen/Qwen3-8B-Base --local_dir {folder}",
        "    (the list does not link to ModelScope: the same name is assumed there)",
        f"  hf download Qwen/Qwen3-8B-Base --local-dir {folder}",
    ]


def test_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    (folder / "config.json").unlink()
    code, out, _ = call(capsys, str(folder), "--json", "--recipe", "qwen3-8b-4k-mcore")
    document = json.loads(out)
    assert (code, document["schema"], document["verdict"]) == (1, "certify.weights/1", "fail")
    assert document["findings"][0] == {
        "rule": "W09",
        "about": "the configuration cannot be used",
        "severity": "error",
        "where": "config.json",
        "found": "missing",
        "expected": "the configuration of the model",
        "hint": None,
    }
    assert [one["published"] for one in document["downloads"]] == [False, True]


def test_digests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("\n".join(lines))
    code, out, _ = call(capsys, str(folder))
    assert (code, "digests: 6 files equal to the list\n" in out) == (0, True)
    (folder / INDEX).write_text((folder / INDEX).read_text() + "\n")
    code, out, _ = call(capsys, str(folder))
    assert (code, f"error  W12  {INDEX}: sha256 " in out) == (1, True)
    other = tmp_path / "other"
    other.write_text(lines[0])
    code, out, _ = call(capsys, str(folder), "--manifest", str(other))
    assert (code, "digests: 1 files equal to the list" in out) == (0, True)


def test_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    bad = tmp_path / "bad"
    bad.write_text("x")
    absent = str(tmp_path / "absent")
    for words, said in (
        ((absent,), "no such folder"),
        ((absent, "--recipe", "qwen3-8b-4k-mcore"), "hint: modelscope download --model Qwen/Qwen3"),
        ((str(folder), "--manifest", absent), "no such file"),
        ((str(folder), "--manifest", str(bad)), f"where: {bad}:1"),
        ((str(folder), "--recipe", "qwne3"), "no recipe named"),
    ):
        code, out, err = call(capsys, *words)
        assert (code, out) == (2, "")
        assert said in err


def test_a_list_of_digests_that_leads_away(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "model")
    (folder / "SHA256SUMS").symlink_to("/etc/hostname")
    code, _, err = call(capsys, str(folder))
    assert code == 2
    assert "the list of digests is a link out of the folder" in err


def test_needs_the_standard_library_only(tmp_path: Path) -> None:
    """In an interpreter without site-packages nothing but certify and matrices is there."""
    folder = checkpoint(tmp_path / "model")
    if sys.version_info < (3, 11):
        pytest.skip("Python 3.10 needs tomli for --recipe")
    words = ["weights", "verify", str(folder), "--recipe", "qwen3-8b-4k-mcore"]
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from certify.cli import main;"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"{script} sys.exit(main({words!r}))"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "W13" in done.stdout
