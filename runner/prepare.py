"""``python -m runner.prepare PREPARE.json``: everything that all runs of a campaign share.

Writes one folder, whole or not at all: config.json, weights/, samples.npy, probe.npy,
tokenizer.json, and prepared.json, which states the digest of each and of every global batch that
the runs will train. Equal specs, data and library versions give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import InfrastructureError
from certify.records import batch_digest, sample_digest
from certify.runspec import PrepareSpec, read_prepare_spec
from runner import initial_weights, watchdog
from runner.command import run_file
from runner.data import corpus, packing, sources, tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

    from runner.data.tokenizer import TextTokenizer

SCHEMA = "certify.prepared/1"
PACKAGES = ("numpy", "safetensors", "tokenizers", "torch", "transformers")


def prepare(spec: PrepareSpec) -> dict[str, Any]:
    """Make the folder of a spec and return the content of its prepared.json.

    Raises UsageError for data, tokenizer or configuration that cannot be used, and
    InfrastructureError when the folder cannot be written.
    """
    out = Path(spec.out_dir)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        _clear_partials(out)
        partial.mkdir(parents=True)
        prepared = _fill(spec, partial)
        _commit(partial, out)
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the prepared folder: {error.strerror or error}",
            where=str(out),
            hint="free space on that disk, or choose another folder with --out",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return prepared


def _clear_partials(out: Path) -> None:
    """Remove what killed preparations of the same folder left behind."""
    for pattern in (f".{out.name}.*.partial", f".{out.name}.*.old"):
        for left in out.parent.glob(pattern):
            pid = left.name.split(".")[-2]
            if not pid.isdigit() or watchdog.is_gone(int(pid), None) or int(pid) == os.getpid():
                shutil.rmtree(left, ignore_errors=True)


def _commit(partial: Path, out: Path) -> None:
    """Flush the files and put the folder in its place."""
    for path in partial.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    if out.exists():
        old = out.with_name(f".{out.name}.{os.getpid()}.old")
        os.rename(out, old)
        os.rename(partial, out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(partial, out)


class _Data:
    """Text source and tokenizer of a spec, and what they amounted to."""

    def __init__(self, spec: PrepareSpec) -> None:
        cache = Path(spec.cache_dir) if spec.cache_dir else None
        needs_corpus = spec.data_path is None or spec.tokenizer_path is None
        self.corpus = corpus.generate() if needs_corpus else None
        self.embedded = spec.data_path is None
        self.source = f"embedded corpus {corpus.VERSION}"
        self.where = "the embedded corpus"
        self._paths: tuple[Path, ...] = ()
        if spec.data_path is not None:
            every = (spec.data_path, *spec.further_data_paths)
            self.source = ", ".join(Path(path).name for path in every)
            self.where = ", ".join(every)
            self._paths = tuple(Path(path) for path in every)
        self._limit = spec.max_documents
        self.tokenizer: TextTokenizer
        if spec.tokenizer_path is not None:
            self.tokenizer = tokenizer.from_folder(Path(spec.tokenizer_path))
        else:
            assert self.corpus is not None
            self.tokenizer = tokenizer.embedded(self.corpus, cache)

    def texts(self) -> Iterable[str]:
        """The documents, in order."""
        if not self._paths:
            assert self.corpus is not None
            return self.corpus.documents
        read = (islice(sources.read(path), self._limit) for path in self._paths)
        return (document.text for document in chain.from_iterable(read))

    def record(self, stream: packing.Stream) -> dict[str, Any]:
        """The "data" entry of prepared.json. loss_floor_nats: known for the embedded corpus."""
        floor = None
        if self.embedded and self.corpus is not None:
            floor = corpus.loss_floor(self.corpus, len(stream.texts), stream.ids.size)
        return {
            "source": self.source,
            "sha256": corpus.text_digest(stream.texts),
            "documents": len(stream.texts),
            "tokens": int(stream.ids.size),
            "unigram_entropy_nats": packing.unigram_entropy(stream.ids),
            "loss_floor_nats": floor,
        }


def _samples(
    spec: PrepareSpec, data: _Data, vocab_size: int
) -> tuple[packing.Stream, packing.Split]:
    """Tokenize as much text as the spec needs and pack it."""
    wanted = spec.samples if spec.samples is not None else spec.steps * spec.global_batch
    probe = -(-spec.probe_positions // spec.seq_length)
    enough = (wanted + probe) * spec.seq_length + 1
    stream = packing.stream(data.texts(), data.tokenizer, enough)
    packing.check_ids(stream.ids, vocab_size, spec.tokenizer_path or data.where)
    samples = packing.windows(stream.ids, spec.seq_length)
    positions, where = spec.probe_positions, data.where
    return stream, packing.split(samples, wanted, spec.global_batch, positions, where)


def _fill(spec: PrepareSpec, folder: Path) -> dict[str, Any]:
    """Write all files of a preparation into an empty folder."""
    data = _Data(spec)
    marks = data.tokenizer
    config = initial_weights.final_config(
        spec.hf_config, marks.size, marks.end_of_text, spec.keep_vocab_size
    )
    stream, parts = _samples(spec, data, int(config["vocab_size"]))
    _save(folder / "samples.npy", parts.train)
    _save(folder / "probe.npy", parts.probe)
    (folder / "tokenizer.json").write_text(marks.to_json(), encoding="utf-8")
    model_class = initial_weights.draw(config, spec.weights_seed, folder / "weights")
    initial_weights.write_json(folder / "config.json", config)
    weights_digest, num_parameters, in_matrices = initial_weights.describe(folder / "weights")
    prepared = {
        "schema": SCHEMA,
        "model_class": model_class,
        "num_parameters": num_parameters,
        "matrix_parameters": in_matrices,
        "weights_digest": weights_digest,
        "weights_seed": spec.weights_seed,
        "vocab_size": config["vocab_size"],
        "tokenizer": {"sha256": marks.sha256, "source": marks.source, "size": marks.size},
        "data": data.record(stream),
        "seq_length": spec.seq_length,
        "global_batch": spec.global_batch,
        "shuffle_seed": spec.shuffle_seed,
        "n_samples": len(parts.train),
        "probe_samples": len(parts.probe),
        "batches": list(batch_records(parts.train, spec)),
        "files": _file_digests(folder),
    }
    canonical = json.dumps(prepared, sort_keys=True, ensure_ascii=False, allow_nan=False)
    prepared["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
    prepared["versions"] = {name: metadata.version(name) for name in PACKAGES}
    initial_weights.write_json(folder / "prepared.json", prepared)
    return prepared


def _save(path: Path, array: npt.NDArray[np.generic]) -> None:
    import numpy as np

    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _file_digests(folder: Path) -> dict[str, str]:
    """File name -> sha256, for everything written so far."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def batch_records(samples: npt.NDArray[np.int32], spec: PrepareSpec) -> Iterator[dict[str, Any]]:
    """What global batch k must be, for each step of the spec.

    This is the plan that runs are held to, so it is computed apart from `runner.data.sampler`
    and `runner.data.batches`: one flat list of sample numbers, epoch after epoch, each epoch
    ordered by PCG64's raw 64-bit draws (ties by sample number).
    """
    import numpy as np

    count, size, seq_length = len(samples), spec.global_batch, spec.seq_length
    tokens = [sample_digest(row.astype("<i4").tobytes()) for row in samples]
    mask = sample_digest(b"", b"\x01" * seq_length)
    order: list[int] = []
    epoch = 0
    while len(order) < spec.steps * size:
        generator = np.random.PCG64(np.random.SeedSequence([spec.shuffle_seed, epoch]))
        draws = [int(draw) for draw in generator.random_raw(count)]
        order += sorted(range(count), key=lambda number, draws=draws: (draws[number], number))  # type: ignore[misc]
        epoch += 1
    for batch in range(spec.steps):
        chosen = order[batch * size : (batch + 1) * size]
        yield {
            "batch": batch,
            "tokens_sha256": batch_digest(tokens[number] for number in chosen),
            "mask_sha256": batch_digest(mask for _ in chosen),
            "tokens": size * seq_length,
            "supervised_tokens": size * seq_length,
        }


def _prepare_and_say(path: Path) -> None:
    begin = time.perf_counter()
    prepared = prepare(read_prepare_spec(path))
    data = prepared["data"]
    print(
        f"prepared {prepared['n_samples']} samples of {prepared['seq_length']} tokens from "
        f"{data['source']} and {prepared['num_parameters']:,} initial weights "
        f"({prepared['model_class']}) in {time.perf_counter() - begin:.1f} s",
        file=sys.stderr,
    )


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code (`runner.command`)."""
    return run_file("runner.prepare", arguments, _prepare_and_say, "PREPARE.json")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
