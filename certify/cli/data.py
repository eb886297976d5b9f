"""examples:
  certify data prepare --input corpus.jsonl --tokenizer Qwen3-8B --output data/corpus --append-eod
  certify data prepare --input texts/ --gpt2-bpe vocab.json merges.txt --output data/gpt2
  certify data prepare --input pages.parquet --json-key content --tokenizer Qwen3-8B \\
      --output data/pages --layout mindspeed-llm --append-eod --workers 8

Make OUTPUT_KEY_document.bin and .idx, byte for byte what Megatron's own tool (or, with --layout
mindspeed-llm, that of MindSpeed-LLM) writes. Needs numpy, tokenizers and, for parquet, pyarrow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign.commands import environment
from certify.errors import (
    EXIT_CANNOT_JUDGE,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    EXIT_USAGE,
    CannotJudgeError,
    CertifyError,
    InfrastructureError,
    UsageError,
)
from certify.json_text import load_json
from certify.runspec.indexed import LAYOUTS, TEXT_UNITS, IndexedSpec, write_indexed_spec

if TYPE_CHECKING:
    import argparse

SCHEMA = "certify.data/1"
_MODULE = "runner.data.prepare_indexed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify data``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="tokenize text", allow_abbrev=False)
    prepare.add_argument(
        "--input", required=True, metavar="PATH", help=".jsonl, .json, .txt, .parquet or a folder"
    )
    source = prepare.add_mutually_exclusive_group(required=True)
    source.add_argument("--tokenizer", metavar="DIR", help="folder with tokenizer.json")
    source.add_argument(
        "--gpt2-bpe", nargs=2, metavar=("VOCAB", "MERGES"), help="files of GPT-2's byte-level BPE"
    )
    prepare.add_argument("--output", required=True, metavar="PREFIX", help="path without suffix")
    prepare.add_argument(
        "--append-eod", action="store_true", help="close documents with the end-of-text id"
    )
    prepare.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="threads"
    )
    prepare.add_argument("--json-key", default="text", metavar="KEY", help="default: text")
    prepare.add_argument(
        "--layout", choices=LAYOUTS, default=LAYOUTS[0], help="whose bytes; default: megatron"
    )
    prepare.add_argument(
        "--special-tokens",
        action="store_true",
        help="with those the tokenizer adds around a text (older Megatron)",
    )
    prepare.add_argument(
        "--text-unit", choices=TEXT_UNITS, help="a document of .txt; default: file, or line with"
        " the layout mindspeed-llm",
    )  # fmt: skip
    prepare.add_argument("--overwrite", action="store_true", help="replace files that are there")
    prepare.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


def _spec(args: argparse.Namespace) -> IndexedSpec:
    if args.workers < 1:
        raise UsageError(f"--workers is {args.workers}", where="--workers", expected="at least 1")
    vocab, merges = args.gpt2_bpe or (None, None)
    line = args.layout == "mindspeed-llm"
    return IndexedSpec(
        input_path=str(Path(args.input).absolute()),
        output_prefix=str(Path(args.output).absolute()),
        tokenizer_path=_absolute(args.tokenizer),
        vocab_path=_absolute(vocab),
        merges_path=_absolute(merges),
        append_eod=args.append_eod,
        json_key=args.json_key,
        workers=args.workers,
        layout=args.layout,
        special_tokens=args.special_tokens,
        text_unit=args.text_unit or ("line" if line else "file"),
        overwrite=args.overwrite,
    )


def _start(spec: IndexedSpec) -> tuple[int, str]:
    """Run the process that tokenizes; its exit code and what it wrote to stdout."""
    with tempfile.TemporaryDirectory(prefix="certify-data-") as folder:
        path = Path(folder) / "spec.json"
        write_indexed_spec(spec, path)
        process = subprocess.Popen(
            (sys.executable, "-m", _MODULE, str(path)),
            env={**os.environ, **environment(threads=1)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # Ctrl-C reaches us alone; the child is then told to end and removes its partial files.
            start_new_session=True,
        )
        try:
            out, _ = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return process.returncode, out


def _raise(error: dict[str, Any]) -> None:
    """Raise what the process reported, as the class that its exit code belongs to."""
    kinds: dict[int, type[CertifyError]] = {
        EXIT_USAGE: UsageError,
        EXIT_CANNOT_JUDGE: CannotJudgeError,
    }
    raise kinds.get(error["exit_code"], InfrastructureError)(
        error["what"], where=error["where"], expected=error["expected"], hint=error["hint"]
    )


def _summary(code: int, out: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = load_json(out)
    except ValueError:
        raise InfrastructureError(
            f"the process that tokenizes ended with exit code {code} and no summary",
            where=f"{sys.executable} -m {_MODULE}",
            hint="its last words are above; less memory is needed with fewer --workers",
        ) from None
    if "error" in document:
        _raise(document["error"])
    return document


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{found['prefix']}.bin  sha256 {found['bin_sha256']}",
        f"{found['prefix']}.idx  sha256 {found['idx_sha256']}",
        f"{found['documents']:,} documents, {found['sequences']:,} sequences, "
        f"{found['tokens']:,} tokens as {found['dtype']} (vocabulary of {found['vocab_size']:,})",
    ]
    if found["empty_documents"]:
        lines.append(f"{found['empty_documents']:,} documents are empty, as the tool keeps them")
    if found["nulls_left_out"]:
        lines.append(f"{found['nulls_left_out']:,} nulls were left out")
    return lines


def run(args: argparse.Namespace) -> int:
    """Make the dataset and print what it holds."""
    code, out = _start(_spec(args))
    if code == EXIT_INTERRUPTED:
        return EXIT_INTERRUPTED
    found = _summary(code, out)
    if args.json:
        print(json.dumps({**found, "schema": SCHEMA}, ensure_ascii=False))
    else:
        print("\n".join(_lines(found)))
    return EXIT_PASS
