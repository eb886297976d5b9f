"""``python -m runner.compare COMPARE.json``: statistics of two runs' evidence, for the judge.

Tensors are too large for records, and the judge reads records only. This process reads both
sides' evidence, runs the float64 oracle on the probe, and writes one `Comparison` record per gate
to ``records/rank-00000.jsonl``. It decides nothing. Evidence that is missing makes an event
``evidence_missing`` in place of its comparison.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from certify.errors import (
    CannotJudgeError,
    CertifyError,
    UsageError,
)
from certify.records import Comparison, End, Header, Writer, rank_file
from certify.runspec import CompareSpec, read_compare_spec
from runner import evidence, initial_weights
from runner.command import run_file
from runner.comparison.forward import forward, require_samples
from runner.comparison.probe_file import ProbeFile
from runner.comparison.routing import routing
from runner.comparison.stock import stock_oracle
from runner.comparison.tensor_files import TensorFiles
from runner.comparison.tensors import backward, first_update

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.comparison.exact import Oracle

SIDES = ("candidate", "reference")
EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


class Comparer:
    """Compares the two runs of a spec and writes the records."""

    def __init__(self, spec: CompareSpec, writer: Writer) -> None:
        self.spec = spec
        self.writer = writer
        self.dirs = {"candidate": Path(spec.candidate_dir), "reference": Path(spec.reference_dir)}

    def run(self) -> None:
        """Every gate in turn. Raises CertifyError for evidence that is there but unusable."""
        gates: dict[str, tuple[str, Callable[[], None]]] = {
            "forward-parity": (evidence.PROBE, self._forward),
            "backward-parity": (evidence.GRADIENTS, self._backward),
            "first-update": (evidence.PARAMETERS, self._first_update),
        }
        if any(self.spec.hf_config.get(key) for key in EXPERT_KEYS):
            gates["routing"] = (evidence.ROUTING, self._routing)
        for gate, (artefact, compare) in gates.items():
            if self._complete(gate, artefact):
                compare()

    def _complete(self, gate: str, artefact: str) -> bool:
        missing = [side for side in SIDES if not self._path(side, artefact).is_file()]
        for side in missing:
            self.writer.event(
                "evidence_missing", 0, gate=gate, side=side, file=str(self._path(side, artefact))
            )
        return not missing

    def _path(self, side: str, artefact: str) -> Path:
        return evidence.evidence_path(self.dirs[side], artefact)

    def _inputs(self, artefact: str, **others: str) -> dict[str, str]:
        """File role -> sha256."""
        sides = {side: evidence.file_sha256(self._path(side, artefact)) for side in SIDES}
        return {f"{side}/{artefact}": digest for side, digest in sides.items()} | others

    def _tensors(self, side: str, artefact: str) -> TensorFiles:
        return TensorFiles([self._path(side, artefact)])

    def _forward(self) -> None:
        spec = self.spec
        try:
            samples = np.load(spec.probe_file, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read the probe: {error}", where=spec.probe_file) from None
        samples = require_samples(samples, spec.probe_file)
        candidate, reference = (ProbeFile(self._path(side, evidence.PROBE)) for side in SIDES)
        second = self._optional(spec.reference_again_dir, evidence.PROBE)
        again = ProbeFile(second) if second else None
        values, classes = forward(candidate, reference, samples, self._oracle(), again)
        others = {
            "probe": evidence.file_sha256(spec.probe_file),
            "weights": initial_weights.describe(Path(spec.weights_dir))[0],
        }
        inputs = self._inputs(evidence.PROBE, **others)
        self.writer.write(Comparison("forward-parity", values, classes, inputs))

    def _oracle(self) -> Oracle | None:
        """The oracle's forward: the written formulas, else the stock class in float64, and an
        event that says so; None, with an event, where neither can be had."""
        from reference_runs.oracle import Oracle as Exact
        from reference_runs.oracle import read_weights

        try:
            return Exact(self.spec.hf_config, read_weights(self.spec.weights_dir)).forward
        except CannotJudgeError as error:
            reason = error.what
        try:
            oracle = stock_oracle(self.spec.weights_dir)
        except (UsageError, ValueError, KeyError, OSError) as error:
            reason = f"{reason}; no stock class either: {error}"
            self.writer.event("oracle_unavailable", 0, reason=reason)
            return None
        self.writer.event("oracle_stock", 0, reason=reason)
        return oracle

    def _backward(self) -> None:
        exact = self._optional(self.spec.exact_dir, evidence.GRADIENTS)
        again = self._optional(self.spec.reference_again_dir, evidence.GRADIENTS)
        with (
            self._tensors("candidate", evidence.GRADIENTS) as candidate,
            self._tensors("reference", evidence.GRADIENTS) as reference,
            TensorFiles([exact] if exact else []) as higher,
            TensorFiles([again] if again else []) as second,
        ):
            values, classes = backward(
                candidate, reference, higher if exact else None, second if again else None
            )
        others = {
            f"{role}/{evidence.GRADIENTS}": evidence.file_sha256(path)
            for role, path in (("exact", exact), ("reference-again", again))
            if path
        }
        inputs = self._inputs(evidence.GRADIENTS, **others)
        self.writer.write(Comparison("backward-parity", values, classes, inputs))

    def _optional(self, run_dir: str | None, artefact: str) -> Path | None:
        """An artefact that a run may have written or not; None without it."""
        path = evidence.evidence_path(run_dir, artefact) if run_dir else None
        return path if path and path.is_file() else None

    def _first_update(self) -> None:
        folder = Path(self.spec.weights_dir)
        with (
            self._tensors("candidate", evidence.PARAMETERS) as candidate,
            self._tensors("reference", evidence.PARAMETERS) as reference,
            TensorFiles(sorted(folder.glob("*.safetensors"))) as initial,
        ):
            values, classes = first_update(candidate, reference, initial)
        inputs = self._inputs(evidence.PARAMETERS, weights=initial_weights.describe(folder)[0])
        self.writer.write(Comparison("first-update", values, classes, inputs))

    def _routing(self) -> None:
        candidate, reference = (evidence.read_routing(self.dirs[side]) for side in SIDES)
        values, classes = routing(candidate, reference)
        inputs = self._inputs(evidence.ROUTING)
        self.writer.write(Comparison("routing", values, classes, inputs))


def compare(spec: CompareSpec) -> None:
    """Write the records of one comparison. Raises CertifyError, after an End that says so."""
    begin = time.perf_counter()
    header = Header(
        run_id=spec.run_id,
        role="compare",
        backend=spec.backend,
        rank=0,
        world_size=1,
        pid=os.getpid(),
        start_unix_s=time.time(),
    )
    writer = Writer(rank_file(Path(spec.run_dir), 0), header)
    status, reason = "failed", "crashed"
    try:
        Comparer(spec, writer).run()
        status, reason = "completed", ""
    except CertifyError as error:
        reason = error.what
        raise
    except KeyboardInterrupt:
        status, reason = "stopped", "interrupted"
        raise
    finally:
        wall = time.perf_counter() - begin
        writer.write(End(status, 0, wall, time.process_time(), reason))
        writer.close()


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code (`runner.command`)."""
    return run_file(
        "runner.compare", arguments, lambda path: compare(read_compare_spec(path)), "COMPARE.json"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
