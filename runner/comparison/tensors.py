"""Compares full tensors by name: gradients of step 1, and the parameters after it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from runner.comparison.classes import CLASSES, parameter_class
from runner.comparison.numbers import Value, ratio, relative_difference
from runner.comparison.tensor_files import TensorFiles, blocks, rolled

Classes = dict[str, dict[str, Value]]


@dataclass
class Sums:
    """Sums of squares and products over the tensors of one class.

    c, r, d, cr: of the candidate, the reference, their difference, their product; lows: the
    smallest value per tensor of what is compared tensor by tensor; bad_c, bad_r: elements that
    are NaN or infinite.
    """

    c: float = 0.0
    r: float = 0.0
    d: float = 0.0
    cr: float = 0.0
    bad_c: int = 0
    bad_r: int = 0
    tensors: int = 0
    lows: list[float] = field(default_factory=list)

    def add(self, other: Sums) -> None:
        """Add the sums of further tensors."""
        for name in ("c", "r", "d", "cr", "bad_c", "bad_r", "tensors"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lows += other.lows

    def take(self, c: torch.Tensor, r: torch.Tensor) -> None:
        """Add one pair of blocks."""
        self.c += float(c.dot(c))
        self.r += float(r.dot(r))
        self.cr += float(c.dot(r))
        difference = c - r
        self.d += float(difference.dot(difference))
        self.bad_c += int((~torch.isfinite(c)).sum())
        self.bad_r += int((~torch.isfinite(r)).sum())

    @property
    def error(self) -> float:
        """Relative Frobenius error ``|c - r| / |r|``."""
        return ratio(math.sqrt(self.d), math.sqrt(self.r))

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between both sides: 0 when one of them is zero, None when both."""
        norms = math.sqrt(self.c) * math.sqrt(self.r)
        if norms == 0.0:
            return None if self.c == self.r == 0.0 else 0.0
        return self.cr / norms


@dataclass(frozen=True)
class _Pair:
    """Both sides' files. A tensor that one side lacks, or has in another shape, counts as zero on
    that side: its class then shows a large error instead of silently losing a member."""

    candidate: TensorFiles
    reference: TensorFiles

    def counts(self) -> dict[str, Value]:
        """How many tensors were compared, and how many had no counterpart."""
        ours, theirs = self.candidate.names(), self.reference.names()
        both = ours & theirs
        return {
            "n_tensors": len(ours | theirs),
            "n_missing": len(theirs - ours),
            "n_extra": len(ours - theirs),
            "n_other_shape": sum(
                self.candidate.shape(name) != self.reference.shape(name) for name in both
            ),
        }

    def matched(self) -> list[str]:
        """Names that both sides have with one shape."""
        both = self.candidate.names() & self.reference.names()
        return sorted(n for n in both if self.candidate.shape(n) == self.reference.shape(n))

    def sums(self, name: str, base: TensorFiles | None = None) -> Sums:
        """Sums of one tensor; with a base, of the difference to it."""
        found = Sums(tensors=1)
        shapes = {f.shape(name) for f in (self.candidate, self.reference) if name in f.names()}
        for shape in shapes:
            for start, stop in blocks(shape):
                c, r = (
                    _minus(side, base, name, shape, start, stop)
                    for side in (self.candidate, self.reference)
                )
                if c is None and r is None:
                    continue
                zero = torch.zeros_like(c if c is not None else r)
                found.take(c if c is not None else zero, r if r is not None else zero)
        return found


def _minus(
    side: TensorFiles,
    base: TensorFiles | None,
    name: str,
    shape: tuple[int, ...],
    start: int,
    stop: int,
) -> torch.Tensor | None:
    """Rows of a tensor, less those of the base; None unless the side has it in this shape."""
    if name not in side.names() or side.shape(name) != shape:
        return None
    rows = side.rows(name, start, stop)
    return rows if base is None else rows - base.rows(name, start, stop)


def _by_class(found: dict[str, Sums]) -> list[tuple[str, Sums]]:
    return [(cls, found[cls]) for cls in CLASSES if cls in found]


def _total(found: dict[str, Sums]) -> Sums:
    total = Sums()
    for sums in found.values():
        total.add(sums)
    return total


def _difference(pair: _Pair) -> dict[str, Sums]:
    """Class -> sums of the plain difference, tensor by tensor."""
    found: dict[str, Sums] = {}
    for name in sorted(pair.candidate.names() | pair.reference.names()):
        found.setdefault(parameter_class(name), Sums()).add(pair.sums(name))
    return found


def rolled_error(candidate: TensorFiles, reference: TensorFiles, name: str) -> float | None:
    """Relative error of the candidate's tensor after a roll by one along its first dimension.

    None for a tensor that a roll hardly changes by itself (constant along that dimension, or
    zero): such a tensor cannot tell a shifted copy from a right one.
    """
    shape = reference.shape(name)
    if not shape or shape[0] < 2:
        return None
    shifted, own = Sums(), Sums()
    for start, stop in blocks(shape):
        right = reference.rows(name, start, stop)
        shifted.take(rolled(candidate, name, start, stop), right)
        own.take(rolled(reference, name, start, stop), right)
    return shifted.error if own.d > 0.0 else None


def backward(
    candidate: TensorFiles,
    reference: TensorFiles,
    exact: TensorFiles | None = None,
    again: TensorFiles | None = None,
) -> tuple[dict[str, Value], Classes]:
    """(values, classes) of the gate backward-parity.

    Per class: ``error``, the Frobenius norm of the difference over that of the
    reference; both norms; ``rolled_error_min``, the smallest error that a rolled copy of one
    tensor would have shown, which says how sensitive the comparison is. exact: the same gradients
    in higher precision, if there are any (the bf16 tier); then ``candidate_error`` and
    ``reference_error`` are the errors of each side against them. again: those of the
    reference's second run; then ``again_error`` is its own run-to-run difference.
    """
    pair = _Pair(candidate, reference)
    found = _difference(pair)
    for name in pair.matched():
        shifted = rolled_error(candidate, reference, name)
        if shifted is not None:
            found[parameter_class(name)].lows.append(shifted)
    classes: Classes = {cls: _distance(sums) for cls, sums in _by_class(found)}
    against = []
    if exact is not None:
        against += [("candidate", candidate, exact), ("reference", reference, exact)]
    if again is not None:
        against.append(("again", again, reference))
    for label, one, other in against:
        for cls, sums in _difference(_Pair(one, other)).items():
            classes.setdefault(cls, {})[f"{label}_error"] = sums.error
    total = _total(found)
    values = _distance(total) | {
        "norm_relative_difference": relative_difference(math.sqrt(total.c), math.sqrt(total.r)),
        "nonfinite_candidate": total.bad_c,
        "nonfinite_reference": total.bad_r,
    }
    return values | pair.counts(), classes


def _distance(sums: Sums) -> dict[str, Value]:
    return {
        "error": sums.error,
        "norm_candidate": math.sqrt(sums.c),
        "norm_reference": math.sqrt(sums.r),
        "rolled_error_min": min(sums.lows, default=None),
        "n_tensors": sums.tensors,
    }


def first_update(
    candidate: TensorFiles, reference: TensorFiles, initial: TensorFiles
) -> tuple[dict[str, Value], Classes]:
    """(values, classes) of the gate first-update: cosine and norms of the change of step 1.

    ``cosine_min`` is that of the tensor with the smallest cosine. Tensors that the initial weights
    lack cannot be compared and are counted as ``n_without_initial``.
    """
    pair = _Pair(candidate, reference)
    found: dict[str, Sums] = {}
    unknown = 0
    for name in sorted(candidate.names() | reference.names()):
        known = name in initial.names() and all(
            side.shape(name) == initial.shape(name)
            for side in (candidate, reference)
            if name in side.names()
        )
        if not known:
            unknown += 1
            continue
        one = pair.sums(name, initial)
        if one.cosine is not None:
            one.lows.append(one.cosine)
        found.setdefault(parameter_class(name), Sums()).add(one)
    total = _total(found)
    values = _direction(total) | {
        "nonfinite_candidate": total.bad_c,
        "nonfinite_reference": total.bad_r,
        "n_without_initial": unknown,
    }
    return values | pair.counts(), {cls: _direction(sums) for cls, sums in _by_class(found)}


def _direction(sums: Sums) -> dict[str, Value]:
    return {
        "cosine": sums.cosine,
        "cosine_min": min(sums.lows, default=None),
        "norm_candidate": math.sqrt(sums.c),
        "norm_reference": math.sqrt(sums.r),
        "error": sums.error,
        "n_tensors": sums.tensors,
    }
