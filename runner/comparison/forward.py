"""Compares the forward passes of both sides on the probe, with the float64 oracle as yardstick.

Near-ties are counted apart. A position is a near-tie of the arg-max when the oracle's two best
logits are nearer than twice the largest error of a logit (each of the two may be off by it), and
a top-k set is one when the oracle's gap is below the largest error of that gap. The smaller error
of the two sides counts, so that a faulty side cannot widen what is near. Rounding may decide a
near-tie either way; in a mixture of experts it then sends a token through another expert, which
changes this and all later positions of the sample by more than rounding. Such positions are left
out of the error statistics and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from certify.errors import UsageError
from runner.comparison import topk
from runner.comparison.exact import ask_oracle
from runner.comparison.numbers import Value, relative_difference

if TYPE_CHECKING:
    import numpy.typing as npt

    from runner.comparison.exact import Exact, Oracle
    from runner.comparison.probe_file import ProbeFile

    Mask: TypeAlias = npt.NDArray[np.bool_]

BLOCK = 1 << 23  # logits of one side held at once
Classes = dict[str, dict[str, Value]]


def forward(
    candidate: ProbeFile,
    reference: ProbeFile,
    samples: npt.NDArray[np.int32],
    oracle: Oracle | None,
    again: ProbeFile | None = None,
) -> tuple[dict[str, Value], Classes]:
    """(values, classes per routed layer) of the gate forward-parity.

    Losses in nats per token, errors in logits, KL in nats. Without an oracle everything that
    needs one is None or left out. again: the probe of the reference's second run, if it wrote one.
    Raises UsageError when the sides did not see the same probe.
    """
    length = samples.shape[1] - 1
    sides = {"candidate": candidate, "reference": reference}
    for side, file in sides.items():
        file.require(len(samples) * length, reference, side)
    values = _losses(candidate, reference)
    exact = ask_oracle(oracle, samples, sides) if oracle is not None else None
    moved: Mask = np.zeros(len(reference.argmax), dtype=bool)
    if exact is not None:
        moved, classes = topk.against_oracle(sides, exact, length)
        values |= _errors(exact, reference, moved)
    else:
        classes = topk.without_oracle(candidate, reference)
    values |= _divergence(candidate, reference, ~moved[reference.row_index])
    values |= _top1(candidate, reference, exact, moved, values)
    if classes:
        values |= topk.summed(classes)
        values["positions_after_near_tie"] = int(moved.sum())
    if again is not None:
        again.require(len(moved), reference, "reference's second run")
        values["again_loss_rel_diff"] = relative_difference(_loss(again), _loss(reference))
        values["again_kl_mean"] = _divergence(again, reference, None)["kl_mean"]
        values["again_top1_disagreements"] = int((again.argmax != reference.argmax).sum())
    return values, classes


def _loss(probe: ProbeFile) -> float:
    return float(-probe.label_logprob.mean(dtype=np.float64))


def _losses(candidate: ProbeFile, reference: ProbeFile) -> dict[str, Value]:
    return {
        "positions": len(reference.argmax),
        "rows": len(reference.row_index),
        "loss_candidate": _loss(candidate),
        "loss_reference": _loss(reference),
        "loss_rel_diff": relative_difference(_loss(candidate), _loss(reference)),
    }


def _errors(exact: Exact, reference: ProbeFile, moved: Mask) -> dict[str, Value]:
    """Logit errors of both sides on the kept rows that no near-tie of a router has moved."""
    kept = ~moved[reference.row_index]
    elements = int(kept.sum()) * reference.vocabulary
    values: dict[str, Value] = {
        "loss_oracle": float(-exact.label_logprob.mean()),
        "rows_compared": int(kept.sum()),
    }
    if not elements:
        return values
    values["logits_rms_oracle"] = float(np.sqrt(exact.row_oracle_square[kept].sum() / elements))
    for side, largest in exact.row_max.items():
        values[f"logits_max_error_{side}"] = float(largest[kept].max())
        square = exact.row_square[side][kept].sum()
        values[f"logits_rms_error_{side}"] = float(np.sqrt(square / elements))
    return values


def _divergence(candidate: ProbeFile, reference: ProbeFile, kept: Mask | None) -> dict[str, Value]:
    """KL(reference || candidate) over the kept rows (None: all), in float64."""
    found = []
    step = max(1, BLOCK // reference.vocabulary)
    for start in range(0, len(reference.row_index), step):
        stop = min(start + step, len(reference.row_index))
        ours, theirs = (
            file.rows(start, stop).double().log_softmax(-1) for file in (candidate, reference)
        )
        found.append((theirs.exp() * (theirs - ours)).sum(-1).numpy())
    rows = np.concatenate(found) if found else np.empty(0)
    rows = rows if kept is None else rows[kept]
    if not rows.size:
        return {"kl_mean": None, "kl_max": None}
    return {"kl_mean": float(rows.mean()), "kl_max": float(rows.max())}


def _top1(
    candidate: ProbeFile,
    reference: ProbeFile,
    exact: Exact | None,
    moved: Mask,
    values: dict[str, Value],
) -> dict[str, Value]:
    """Disagreements of the arg-max over all positions, and how many of them are near-ties."""
    differs = candidate.argmax != reference.argmax
    errors = [values.get(f"logits_max_error_{side}") for side in ("candidate", "reference")]
    known = [error for error in errors if error is not None and error == error]
    if exact is None or not known:
        return {"top1_disagreements": int(differs.sum()), "top1_near_ties": None}
    tie = 2 * min(known)
    near = exact.gap <= tie
    return {
        "top1_disagreements": int(differs.sum()),
        "top1_near_ties": int((differs & (near | moved)).sum()),
        "top1_near_tie_gap": tie,
        "top1_near_tie_positions": int(near.sum()),
        "top1_oracle_disagreements_candidate": int((candidate.argmax != exact.argmax).sum()),
        "top1_oracle_disagreements_reference": int((reference.argmax != exact.argmax).sum()),
    }


def require_samples(samples: npt.NDArray[Any], where: str) -> npt.NDArray[np.int32]:
    """The probe samples, checked. Raises UsageError for an array that is none."""
    if samples.ndim != 2 or samples.shape[1] < 2 or not len(samples) or samples.dtype != np.int32:
        raise UsageError(
            f"a probe of shape {samples.shape} and type {samples.dtype}",
            where=where,
            expected="int32 (samples, positions + 1)",
        )
    return samples
