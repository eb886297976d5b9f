"""``certify data prepare`` as a command: the process, its summary, its errors, its cleanliness."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from certify.cli import main

ROOT = Path(__file__).parents[2]
needs_libraries = pytest.mark.skipif(
    find_spec("tokenizers") is None or find_spec("numpy") is None,
    reason="numpy and tokenizers are not installed",
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Arguments of a tiny run: GPT-2 files of bytes and one merge, and three records."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(byte) for byte in printable] + [chr(256 + n) for n in range(68)]
    table = {token: number for number, token in enumerate([*alphabet, "th", "<|endoftext|>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(table))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\n")
    lines = [json.dumps({"text": text}) for text in ("the", "", "a th")]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    bpe = ("--gpt2-bpe", str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    return ("--input", str(tmp_path / "in.jsonl"), *bpe, "--output", str(tmp_path / "out" / "x"))


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["data", "prepare", *words])
    out, err = capsys.readouterr()
    return code, out, err


@needs_libraries
def test_whole_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: tuple[str, ...]
) -> None:
    code, out, err = call(capsys, *files, "--append-eod", "--workers", "1")
    assert (code, err) == (0, "")
    prefix = tmp_path / "out" / "x_text_document"
    first, second, *rest = out.splitlines()
    assert first.startswith(f"{prefix}.bin  sha256 ")
    assert second.startswith(f"{prefix}.idx  sha256 ")
    assert rest == [
        "3 documents, 2 sequences, 7 tokens as uint16 (vocabulary of 258)",
        "1 documents are empty, as the tool keeps them",
    ]
    assert prefix.with_name("x_text_document.bin").stat().st_size == 2 * 7
    code, out, err = call(capsys, *files, "--append-eod", "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["error"]["exit_code"]) == (2, "certify.data/1", 2)
    assert "error: the dataset is there already" in err
    assert "hint: --overwrite replaces it" in err


@needs_libraries
def test_the_number_of_workers_does_not_show(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: tuple[str, ...]
) -> None:
    lines = [json.dumps({"text": f"the {n} th " * (n % 7)}) for n in range(3000)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    found = []
    for workers in ("1", "4"):
        code, out, _ = call(capsys, *files, "--workers", workers, "--overwrite", "--json")
        assert code == 0
        found.append(json.loads(out))
    assert found[0] == found[1]
    assert found[0]["documents"] == 3000


@needs_libraries
def test_an_error_names_file_and_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: tuple[str, ...]
) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"body": "b"}\n')
    code, out, err = call(capsys, *files)
    assert (code, out) == (2, "")
    assert err == (
        "error: no key 'text': found body\n"
        f"  where: {tmp_path / 'in.jsonl'}:2\n"
        "\n"
        "hint: name the key of the text with --json-key\n"
    )
    assert not list((tmp_path / "out").iterdir())


@needs_libraries
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, files: tuple[str, ...]) -> None:
    line = json.dumps({"text": "the " * 2000}) + "\n"
    (tmp_path / "in.jsonl").write_text(line * 20000)
    process = subprocess.Popen(
        [sys.executable, "-m", "certify", "data", "prepare", *files, "--workers", "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not list((tmp_path / "out").glob(".*.partial")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert not list((tmp_path / "out").iterdir())


def test_usage(capsys: pytest.CaptureFixture[str], files: tuple[str, ...]) -> None:
    assert call(capsys, *files, "--workers", "0")[0] == 2
    assert call(capsys, *files, "--tokenizer", "x")[0] == 2
    assert call(capsys, "--input", "x", "--output", "y")[0] == 2


def test_a_python_without_the_libraries(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    files: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "tokenizers.py").write_text("raise ModuleNotFoundError('no', name='tokenizers')\n")
    monkeypatch.setenv("PYTHONPATH", str(empty))
    code, _, err = call(capsys, *files)
    assert code == 4
    assert "the Python package" in err
    assert "hint: pip install numpy tokenizers pyarrow" in err


def test_a_process_that_says_nothing(
    capsys: pytest.CaptureFixture[str], files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certify.cli.data._MODULE", "runner.data.absent")
    code, _, err = call(capsys, *files)
    assert code == 4
    assert "ended with exit code 1 and no summary" in err
