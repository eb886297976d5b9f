"""Compares the top-k sets of the probe, layer by layer, and says which positions a tie moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from certify.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from runner.comparison.exact import Exact
    from runner.comparison.numbers import Value
    from runner.comparison.probe_file import ProbeFile

    Mask: TypeAlias = npt.NDArray[np.bool_]
    Classes: TypeAlias = dict[str, dict[str, Value]]


def _unlike(one: npt.NDArray[np.int16], two: npt.NDArray[np.int16]) -> Mask:
    return (one != two).any(axis=-1)


def without_oracle(candidate: ProbeFile, reference: ProbeFile) -> Classes:
    """Per layer, how many sets differ; near-ties stay unknown without an oracle."""
    return {
        f"layer.{layer}": {
            "sets": len(reference.sets[layer]),
            "disagreements": int(_unlike(candidate.sets[layer], reference.sets[layer]).sum()),
            "near_ties": None,
        }
        for layer in reference.layers
    }


def _gap_error(file: ProbeFile, exact: Exact, length: int) -> dict[int, float]:
    """Layer -> a side's largest error of the gap, over samples without any flip."""
    flipped: Mask = np.zeros(len(exact.argmax), dtype=bool)
    for layer in file.layers:
        flipped |= _unlike(file.sets[layer], exact.sets[layer])
    clean: Mask = np.repeat(~flipped.reshape(-1, length).any(axis=1), length)
    if not clean.any():
        clean = ~flipped
    return {
        layer: float(np.abs(file.set_gap[layer] - exact.set_gap[layer])[clean].max(initial=0.0))
        for layer in file.layers
    }


def against_oracle(sides: dict[str, ProbeFile], exact: Exact, length: int) -> tuple[Mask, Classes]:
    """(positions that a near-tie has moved on either side, statistics per routed layer)."""
    candidate, reference = sides["candidate"], sides["reference"]
    if reference.layers and sorted(exact.sets) != reference.layers:
        raise UsageError(
            f"routers in layers {reference.layers}",
            where=str(reference.path),
            expected=f"layers {sorted(exact.sets)}, those of the weights that have a router",
        )
    errors = [_gap_error(file, exact, length) for file in sides.values()]
    near_below = {layer: min(one[layer] for one in errors) for layer in reference.layers}
    at_tie: Mask = np.zeros(len(exact.argmax), dtype=bool)
    for layer in reference.layers:
        near = exact.set_gap[layer] <= near_below[layer]
        for file in sides.values():
            at_tie |= near & _unlike(file.sets[layer], exact.sets[layer])
    # A position sees itself and everything before it in its sample.
    moved: Mask = np.maximum.accumulate(at_tie.reshape(-1, length), axis=1).reshape(-1)
    classes: Classes = {}
    for layer in reference.layers:
        differs = _unlike(candidate.sets[layer], reference.sets[layer])
        near = exact.set_gap[layer] <= near_below[layer]
        classes[f"layer.{layer}"] = {
            "sets": len(differs),
            "disagreements": int(differs.sum()),
            "near_ties": int((differs & (near | moved)).sum()),
            "near_tie_gap": near_below[layer],
            "oracle_disagreements_candidate": int(
                _unlike(candidate.sets[layer], exact.sets[layer]).sum()
            ),
            "oracle_disagreements_reference": int(
                _unlike(reference.sets[layer], exact.sets[layer]).sum()
            ),
        }
    return moved, classes


def summed(classes: Classes) -> dict[str, Value]:
    """The numbers of all layers together."""
    ties = [one["near_ties"] for one in classes.values()]
    return {
        "routing_sets": sum(one["sets"] or 0 for one in classes.values()),
        "routing_disagreements": sum(one["disagreements"] or 0 for one in classes.values()),
        "routing_near_ties": None if None in ties else sum(tie or 0 for tie in ties),
    }
