"""``python -m runner.data.prepare_indexed SPEC.json``: text into Megatron's ``.bin`` and ``.idx``.

The bytes are those of Megatron's ``tools/preprocess_data.py`` or, in the other layout, of
MindSpeed-LLM's ``preprocess_data.py``. stdout is one JSON document, the summary or an ``error``;
progress goes to stderr. Files appear whole or not at all: the index last, so that a pair with an
index is complete.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from certify.errors import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    CertifyError,
    InfrastructureError,
    UsageError,
)
from certify.runspec import IndexedSpec, read_indexed_spec
from runner import watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.data.indexed import IndexedWriter
    from runner.data.indexed_source import Entry
    from runner.data.indexed_tokenizer import Encoder

SCHEMA = "certify.indexed/1"
# .info is JSON, under a name that no later run takes for data of its own.
SUFFIXES = (".bin", ".idx", ".info")
# Texts handed to the tokenizer at once: enough for all threads, little enough for memory.
BATCH_TEXTS = 2048
BATCH_CHARACTERS = 4_000_000
PROGRESS_S = 5.0


class _Hashed:
    """A file that digests what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)


class _Progress:
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()

    def tell(self, writer: IndexedWriter) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            rate = writer.tokens / (now - self._began)
            print(
                f"{writer.documents:,} documents, {writer.tokens:,} tokens, {rate:,.0f} tokens/s",
                file=sys.stderr,
            )


def prepare(spec: IndexedSpec) -> dict[str, Any]:
    """Make the files of a spec; returns the summary, which is also written beside them.

    Raises UsageError for input or tokenizer that cannot be used and for files that are there
    already, InfrastructureError when the disk refuses.
    """
    from runner.data import indexed_tokenizer

    base = f"{spec.output_prefix}_{spec.json_key}_document"
    _refuse_existing(base, spec.overwrite)
    if spec.tokenizer_path is not None:
        folder = Path(spec.tokenizer_path)
        encoder = indexed_tokenizer.from_folder(folder, append_eod=spec.append_eod)
    else:
        encoder = indexed_tokenizer.from_gpt2_files(
            Path(str(spec.vocab_path)), Path(str(spec.merges_path)), append_eod=spec.append_eod
        )
    partial = {suffix: _partial(Path(base + suffix)) for suffix in SUFFIXES}
    try:
        _clear_partials(Path(base))
        partial[".bin"].parent.mkdir(parents=True, exist_ok=True)
        summary = _fill(spec, encoder, partial)
        _commit(partial, base)
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the dataset: {error.strerror or error}",
            where=f"{base}.bin",
            hint="free space on that disk, or choose another --output",
        ) from error
    finally:
        for path in partial.values():
            with suppress(OSError):
                path.unlink()
    return summary


def _refuse_existing(base: str, overwrite: bool) -> None:
    there = [suffix for suffix in (".bin", ".idx") if os.path.lexists(base + suffix)]
    if there and not overwrite:
        raise UsageError(
            "the dataset is there already",
            where=base + there[0],
            hint="--overwrite replaces it; another --output keeps both",
        )


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _clear_partials(base: Path) -> None:
    """Remove what killed runs of the same output left behind."""
    for left in base.parent.glob(f".{glob.escape(base.name)}.*.partial"):
        pid = left.name.split(".")[-2]
        if pid.isdigit() and (int(pid) == os.getpid() or watchdog.is_gone(int(pid), None)):
            with suppress(OSError):
                left.unlink()


def _commit(partial: dict[str, Path], base: str) -> None:
    """Put the files in their places: the old index goes first, the new one comes last."""
    for path in partial.values():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    with suppress(FileNotFoundError):
        os.unlink(f"{base}.idx")
    for suffix in (".bin", ".info", ".idx"):
        os.replace(partial[suffix], base + suffix)


def _fill(spec: IndexedSpec, encoder: Encoder, partial: dict[str, Path]) -> dict[str, Any]:
    """Write all files under their partial names."""
    from runner.data import indexed, indexed_source

    own = spec.layout == "megatron"
    dtype = indexed.optimal_dtype(encoder.vocab_size if own else None)
    counts = {"empty": 0, "nulls": 0}
    with partial[".bin"].open("wb") as file:
        data = _Hashed(file)
        writer = indexed.IndexedWriter(data, dtype)  # type: ignore[arg-type]
        entries = indexed_source.read(Path(spec.input_path), spec.json_key, spec.text_unit)
        _write(spec, encoder, writer, entries, counts)
    if writer.tokens == 0:
        raise UsageError(
            "the data holds no text", where=spec.input_path, expected="at least one document"
        )
    with partial[".idx"].open("wb") as file:
        index = _Hashed(file)
        writer.write_index(index)  # type: ignore[arg-type]
    summary = {
        "schema": SCHEMA,
        "prefix": f"{spec.output_prefix}_{spec.json_key}_document",
        "layout": spec.layout,
        "documents": writer.documents,
        "sequences": writer.sequences,
        "tokens": writer.tokens,
        "empty_documents": counts["empty"],
        "nulls_left_out": counts["nulls"],
        "dtype": dtype,
        "vocab_size": encoder.vocab_size,
        "end_of_text": encoder.end_of_text,
        "special_tokens": spec.special_tokens or not own,
        "tokenizer_sha256": encoder.sha256,
        "bin_sha256": data.sha256.hexdigest(),
        "idx_sha256": index.sha256.hexdigest(),
    }
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    partial[".info"].write_text(text + "\n", encoding="utf-8")
    return summary


def _write(
    spec: IndexedSpec,
    encoder: Encoder,
    writer: IndexedWriter,
    entries: Iterable[Entry],
    counts: dict[str, int],
) -> None:
    """Tokenize batch after batch and hand the documents on, in their order."""
    own = spec.layout == "megatron"
    progress = _Progress()
    for batch in _batches(entries, counts):
        if not own:
            batch = [_plain(entry) for entry in batch if entry.texts != ("",)]
        texts = [text for entry in batch for text in entry.texts or ()]
        places = [entry.where for entry in batch for _ in entry.texts or ()]
        special = spec.special_tokens or not own
        ids = iter(encoder.encode(texts, places, special_tokens=special))
        for entry in batch:
            sequences = [next(ids) for _ in entry.texts or ()]
            if own:
                # Megatron's tool passes over a sequence without ids; a document may be left empty.
                sequences = [one for one in sequences if one]
            if sequences and encoder.end_of_text is not None:
                sequences[-1].append(encoder.end_of_text)
            counts["empty"] += not sequences
            writer.add_document(sequences, entry.where)
        progress.tell(writer)


def _plain(entry: Entry) -> Entry:
    if entry.several:
        raise UsageError(
            "a list of texts", where=entry.where, expected="one text a record in this layout"
        )
    return entry


def _batches(entries: Iterable[Entry], counts: dict[str, int]) -> Iterator[list[Entry]]:
    """Entries in groups of bounded size; nulls are counted and left out."""
    batch: list[Entry] = []
    characters = 0
    for entry in entries:
        if entry.texts is None:
            counts["nulls"] += 1
            continue
        batch.append(entry)
        characters += sum(map(len, entry.texts))
        if len(batch) >= BATCH_TEXTS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _threads(workers: int) -> None:
    """Set how many threads tokenize; works before the first use of the library only."""
    os.environ["RAYON_NUM_THREADS"] = str(workers)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if workers > 1 else "false"


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python -m runner.data.prepare_indexed SPEC.json", file=sys.stderr)
        return EXIT_USAGE
    watchdog.start()
    signal.signal(signal.SIGTERM, _interrupt)  # so that partial files are removed
    try:
        spec = read_indexed_spec(Path(arguments[0]))
        _threads(spec.workers)
        document: dict[str, Any] = prepare(spec)
        code = 0
    except ModuleNotFoundError as error:
        missing = InfrastructureError(
            f"the Python package {error.name} is not installed here",
            where=sys.executable,
            hint="pip install numpy tokenizers pyarrow",
        )
        document, code = {"schema": SCHEMA, "error": missing.as_json()}, missing.exit_code
    except CertifyError as error:
        document, code = {"schema": SCHEMA, "error": error.as_json()}, error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    print(json.dumps(document, ensure_ascii=False))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
