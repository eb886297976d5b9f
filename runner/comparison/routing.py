"""Compares the top-k sets that the routers of two runs chose during training.

While both runs agree bit for bit in every set, their weights differ by rounding only. The first
difference is either a near-tie, decided by that rounding, or a fault; the gap between the k-th
and the next probability tells which. After it the trajectories are different ones, and later
differences say nothing: they are counted, not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from certify.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from runner.comparison.numbers import Value
    from runner.evidence import Routing


def _at_first(
    differs: npt.NDArray[np.bool_],
    candidate: npt.NDArray[np.float32],
    reference: npt.NDArray[np.float32],
) -> dict[str, Value]:
    """Gaps where the sets of one step differ. All arrays: [layers, tokens] of that step."""
    layer = int(np.flatnonzero(differs.any(axis=1))[0])
    first = differs[layer]

    def largest(gap: npt.NDArray[np.float32]) -> float:
        return float(gap.max())

    return {
        "first_step_differing": int(differs.sum()),
        "first_step_max_gap_candidate": largest(candidate[differs]),
        "first_step_max_gap_reference": largest(reference[differs]),
        "first_step_median_gap_reference": float(np.median(reference)),
        # Deeper layers and later tokens follow from a flip above them: only these are its cause.
        "first_layer": layer,
        "first_layer_differing": int(first.sum()),
        "first_layer_max_gap_candidate": largest(candidate[layer][first]),
        "first_layer_max_gap_reference": largest(reference[layer][first]),
    }


def _require_alike(candidate: Routing, reference: Routing) -> None:
    same_layers = np.array_equal(candidate.layers, reference.layers)
    if candidate.ids.shape[1:] != reference.ids.shape[1:] or not same_layers:
        raise UsageError(
            f"routing of shape {candidate.ids.shape[1:]}",
            where="the candidate's routing.npz",
            expected=f"(layers, tokens, k) = {reference.ids.shape[1:]}, as the reference has",
        )


def routing(
    candidate: Routing, reference: Routing
) -> tuple[dict[str, Value], dict[str, dict[str, Value]]]:
    """(values, classes per layer) of the gate routing, over the steps that both runs recorded.

    Raises UsageError when the runs routed other numbers of layers, tokens or experts per token.
    """
    _require_alike(candidate, reference)
    steps, ours, theirs = np.intersect1d(candidate.steps, reference.steps, return_indices=True)
    layers = [int(layer) for layer in reference.layers]
    per_layer: npt.NDArray[np.int64] = np.zeros((len(steps), len(layers)), dtype=np.int64)
    first: int | None = None
    values: dict[str, Value] = {}
    for row, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        differs = (candidate.ids[a] != reference.ids[b]).any(axis=-1)
        per_layer[row] = differs.sum(axis=1)
        if first is None and differs.any():
            first = row
            values = _at_first(differs, candidate.gap[a], reference.gap[b])
            values["first_layer"] = layers[int(values["first_layer"] or 0)]
    per_step = reference.ids.shape[1] * reference.ids.shape[2]
    values |= {
        "steps_compared": len(steps),
        "steps_agreeing": first if first is not None else len(steps),
        "first_difference_step": int(steps[first]) if first is not None else None,
        "differing": int(per_layer.sum()),
        "compared": len(steps) * per_step,
    }
    classes: dict[str, dict[str, Value]] = {
        f"layer.{layer}": {
            "differing": int(per_layer[:, at].sum()),
            "first_step_differing": int(per_layer[first, at]) if first is not None else 0,
            "compared": len(steps) * reference.ids.shape[2],
        }
        for at, layer in enumerate(layers)
    }
    return values, classes
