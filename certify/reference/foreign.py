"""Reads the trajectory of a user's own Megatron-LM or MindSpeed-LLM run from what it logged.

Such a log shows losses and rates, and nothing of the weights and batches that they belong to.
It is kept as it stands, with the resolution at which each number was printed.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LINE = re.compile(r"\biteration\s+(\d+)\s*/\s*(\d+)\s*\|(.*)$")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Field of a step -> names under which releases print it.
_FIELDS: dict[str, tuple[str, ...]] = {
    "loss": ("lm loss", "loss"),
    "grad_norm": ("grad norm",),
    "lr": ("learning rate",),
    "global_batch": ("global batch size",),
    "step_time_ms": ("elapsed time per iteration (ms)",),
    "aux_loss": ("load_balancing_loss",),
    "skipped": ("number of skipped iterations",),
    "not_finite": ("number of nan iterations",),
}
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?|[+-]?(?:nan|inf)", re.I)


@dataclass(frozen=True)
class LoggedStep:
    """One printed step; None where the line does not say. loss_resolution: half of the last
    printed digit of the loss, in nats; step_time_ms: milliseconds."""

    step: int
    loss: float | None = None
    loss_resolution: float | None = None
    grad_norm: float | None = None
    lr: float | None = None
    global_batch: int | None = None
    step_time_ms: float | None = None
    aux_loss: float | None = None
    skipped: int | None = None
    not_finite: int | None = None


@dataclass(frozen=True)
class Trajectory:
    """steps: by number, ascending; planned: the run's last step, as it printed it; repeated:
    steps that were printed again with other values (a restart), of which the last one counts."""

    steps: tuple[LoggedStep, ...]
    planned: int
    repeated: tuple[int, ...]

    def text(self) -> str:
        """One JSON object a line; NaN and infinity as text, which JSON does not have."""
        lines = []
        for step in self.steps:
            body = {key: value for key, value in asdict(step).items() if value is not None}
            lines.append(json.dumps({key: _plain(value) for key, value in body.items()}))
        return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def read_log(lines: Iterable[str], where: str) -> Trajectory:
    """The steps of a log. Raises UsageError when it prints none, and for a loss nowhere."""
    steps: dict[int, LoggedStep] = {}
    repeated: list[int] = []
    planned = 0
    for line in lines:
        found = _LINE.search(_COLOURS.sub("", line.rstrip("\r\n")))
        if found is None:
            continue
        number, last = int(found[1]), int(found[2])
        planned = max(planned, last)
        step = _step(number, _words(found[3]))
        if number in steps and steps[number] != step:
            repeated.append(number)
        steps[number] = step
    if not steps:
        raise UsageError(
            "the log prints no iteration",
            where=where,
            expected="lines such as 'iteration 10/ 2000 | ... | lm loss: 1.1E+01 | ...'",
        )
    if all(step.loss is None for step in steps.values()):
        raise UsageError(
            "the log prints no loss", where=where, expected="'lm loss: NUMBER' in iteration lines"
        )
    ordered = tuple(steps[number] for number in sorted(steps))
    return Trajectory(ordered, planned, tuple(sorted(set(repeated))))


def _words(text: str) -> dict[str, str]:
    """Name -> value of the fields between the bars."""
    pairs = (field.rpartition(":") for field in text.split("|"))
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


def _step(number: int, words: Mapping[str, str]) -> LoggedStep:
    values: dict[str, Any] = {}
    for field, names in _FIELDS.items():
        text = next((words[name] for name in names if name in words), None)
        match = None if text is None else _NUMBER.match(text)
        if match is None:
            continue
        values[field] = float(match[0])
        if field == "loss" and math.isfinite(values[field]):
            digits = len(match[1] or match[2] or "")
            values["loss_resolution"] = 0.5 * 10.0 ** (int(match[3] or 0) - digits)
    for field in ("global_batch", "skipped", "not_finite"):
        if field in values and math.isfinite(values[field]):
            values[field] = int(values[field])
    return LoggedStep(number, **values)


def differences(trajectory: Trajectory, recipe: Mapping[str, Any]) -> list[str]:
    """Where a log is not of the recipe: batch size, largest rate, number of steps."""
    training, batch = recipe.get("training") or {}, recipe.get("batch") or {}
    rates = [s.lr for s in trajectory.steps if s.lr is not None and math.isfinite(s.lr)]
    sizes = {s.global_batch for s in trajectory.steps if s.global_batch is not None}
    said = []
    if batch.get("global") and sizes and sizes != {batch["global"]}:
        shown = ", ".join(map(str, sorted(sizes)))
        said.append(f"global batch {shown}, recipe {batch['global']}")
    # Six printed digits.
    if training.get("lr") and rates and max(rates) > training["lr"] * (1 + 1e-5):
        said.append(f"learning rate up to {max(rates):g}, recipe {training['lr']:g}")
    if training.get("steps") and trajectory.planned != training["steps"]:
        said.append(f"{trajectory.planned} steps planned, recipe {training['steps']}")
    return said
