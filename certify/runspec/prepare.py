"""What ``runner.prepare`` reads: the data, tokenizer and initial weights to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.runspec.form import read_form, write_form

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "certify.preparespec/1"


@dataclass(frozen=True)
class PrepareSpec:
    """One preparation.

    out_dir: folder to make (replaced whole); hf_config: transformers configuration with
    ``model_type``, whose vocab_size and token ids are set from the tokenizer; weights_seed: seed
    of the initial weights; seq_length: positions per sample; steps and global_batch: what the
    runs will train; samples: size of one epoch, or None for as many as the steps need;
    probe_positions: at least this many held-out positions for forward parity; data_path: file or
    folder of text, or None for the embedded corpus; tokenizer_path: Hugging Face tokenizer
    folder, or None for the embedded tokenizer; cache_dir: where the embedded tokenizer is kept,
    or None; keep_vocab_size: the vocabulary of hf_config is fixed, a tokenizer that exceeds it is
    an error; further_data_paths: read behind data_path, in order; max_documents: at most so many
    documents of each path, or None for all.
    """

    out_dir: str
    hf_config: dict[str, Any]
    weights_seed: int
    seq_length: int
    global_batch: int
    steps: int
    shuffle_seed: int
    samples: int | None = None
    probe_positions: int = 20480
    data_path: str | None = None
    tokenizer_path: str | None = None
    cache_dir: str | None = None
    keep_vocab_size: bool = False
    further_data_paths: tuple[str, ...] = ()
    max_documents: int | None = None
    schema: str = SCHEMA


def write_prepare_spec(spec: PrepareSpec, path: Path) -> None:
    """Write ``PREPARE.json``."""
    write_form(spec, path)


def read_prepare_spec(path: Path) -> PrepareSpec:
    """Read ``PREPARE.json``. Raises UsageError naming the key at fault."""
    spec = read_form(PrepareSpec, path, SCHEMA)
    positive = {
        "seq_length": spec.seq_length,
        "global_batch": spec.global_batch,
        "steps": spec.steps,
        "samples": 1 if spec.samples is None else spec.samples,
        "probe_positions": spec.probe_positions,
        "max_documents": 1 if spec.max_documents is None else spec.max_documents,
    }
    for name, value in positive.items():
        if value < 1:
            raise UsageError(f"{name} is {value}", where=str(path), expected="at least 1")
    for name, value in (("weights_seed", spec.weights_seed), ("shuffle_seed", spec.shuffle_seed)):
        if value < 0:
            raise UsageError(f"{name} is {value}", where=str(path), expected="at least 0")
    return spec
