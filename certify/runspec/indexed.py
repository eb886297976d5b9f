"""What ``runner.data.prepare_indexed`` reads: text to turn into Megatron's indexed dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.errors import UsageError
from certify.runspec.form import read_form, write_form

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.indexedspec/1"
LAYOUTS = ("megatron", "mindspeed-llm")
TEXT_UNITS = ("file", "line")


@dataclass(frozen=True)
class IndexedSpec:
    """One dataset to make: ``OUTPUT_KEY_document.bin`` and ``.idx``.

    input_path: file or folder of text; output_prefix: path without the suffix that is added;
    tokenizer_path: Hugging Face tokenizer folder, or None with vocab_path and merges_path (the
    files of GPT-2's byte-level BPE); append_eod: close each document with the end-of-text id;
    json_key: key of the text in JSON records, column in parquet; workers: threads that tokenize,
    of no influence on the bytes; layout: whose tool the bytes equal (`LAYOUTS`); special_tokens:
    the tokenizer adds those it adds around a text (always so in the layout mindspeed-llm);
    text_unit: a document is a whole .txt ``file`` or a ``line``; overwrite: replace files that
    are there.
    """

    input_path: str
    output_prefix: str
    tokenizer_path: str | None = None
    vocab_path: str | None = None
    merges_path: str | None = None
    append_eod: bool = False
    json_key: str = "text"
    workers: int = 1
    layout: str = "megatron"
    special_tokens: bool = False
    text_unit: str = "file"
    overwrite: bool = False
    schema: str = SCHEMA


def write_indexed_spec(spec: IndexedSpec, path: Path) -> None:
    """Write the spec's JSON file."""
    write_form(spec, path)


def read_indexed_spec(path: Path) -> IndexedSpec:
    """Read a spec. Raises UsageError naming the key at fault."""
    spec = read_form(IndexedSpec, path, SCHEMA)
    files = (spec.vocab_path, spec.merges_path)
    if (spec.tokenizer_path is None) == (None in files) or files.count(None) == 1:
        raise UsageError(
            "not one tokenizer",
            where=str(path),
            expected="either tokenizer_path, or vocab_path and merges_path",
        )
    for name, value, known in (
        ("layout", spec.layout, LAYOUTS),
        ("text_unit", spec.text_unit, TEXT_UNITS),
    ):
        if value not in known:
            raise UsageError(
                f"{name} is {value!r}", where=str(path), expected=f"one of {', '.join(known)}"
            )
    if spec.workers < 1:
        raise UsageError(f"workers is {spec.workers}", where=str(path), expected="at least 1")
    if not spec.json_key or "/" in spec.json_key or "\0" in spec.json_key:
        raise UsageError(
            f"json_key is {spec.json_key!r}",
            where=str(path),
            expected="a key that can be part of a file name",
        )
    return spec
