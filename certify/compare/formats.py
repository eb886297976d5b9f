"""Loss files of other frameworks, and of our own runs: found out by what is in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.reference.foreign import read_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Metric -> names under which files hold it.
NAMES = {
    "loss": ("loss", "lm loss", "lm_loss", "train_loss"),
    "grad_norm": ("grad_norm", "grad norm"),
}
STEP_NAMES = ("step", "current_steps", "iteration")
FORMATS = (
    "a log of Megatron or MindSpeed, trainer_state.json, JSON lines with a step and a loss, "
    "a JSON object with lists, or the run folder of a campaign"
)


@dataclass(frozen=True)
class Curve:
    """where: the file; form: of which format; loss, grad_norm: by step, NaN and infinity kept."""

    where: str
    form: str
    loss: dict[int, float]
    grad_norm: dict[int, float]


def read_curve(name: str) -> Curve:
    """The curve of a file, or of one entry of it: ``FILE#KEY`` where a JSON file holds several.

    Raises UsageError for a file that holds none.
    """
    path, key = Path(name), ""
    if not path.exists() and "#" in name:
        first, _, key = name.partition("#")
        path = Path(first)
    if path.is_dir():
        return _from_run(path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=name) from None
    found = _from_json(text, name, key) or _from_lines(text, name)
    if found is not None:
        return found
    try:
        steps = read_log(text.splitlines(), name).steps
    except UsageError as error:
        raise UsageError(str(error.what), where=name, expected=FORMATS) from None
    losses = {s.step: s.loss for s in steps if s.loss is not None}
    norms = {s.step: s.grad_norm for s in steps if s.grad_norm is not None}
    return Curve(name, "log", losses, norms)


def _from_run(folder: Path) -> Curve:
    from certify.records import read_run

    files = list(read_run(folder))
    if not files:
        raise UsageError("no records in this folder", where=str(folder), expected=FORMATS)
    steps = files[0].steps()
    losses = {n: s.loss for n, s in steps.items()}
    return Curve(str(folder), "records", losses, {n: s.grad_norm for n, s in steps.items()})


def _from_json(text: str, where: str, key: str) -> Curve | None:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if key:
        if not isinstance(body, dict) or not isinstance(body.get(key), dict):
            raise UsageError(f"no entry {key!r}", where=where, expected="an object of that name")
        body = body[key]
    if isinstance(body, dict) and isinstance(body.get("log_history"), list):
        return _events(body["log_history"], where, "trainer_state")
    if isinstance(body, list):
        return _events(body, where, "events")
    if not isinstance(body, dict):
        return None
    if not any(isinstance(body.get(name), list) for name in NAMES["loss"]):
        inner = [k for k, v in body.items() if isinstance(v, dict) and _list(v, "loss")]
        if inner:
            raise UsageError(
                f"{len(inner)} curves in one file",
                where=where,
                expected=f"one of them, such as {where}#{inner[0]}",
            )
        return _events([body], where, "events") if _first(body, STEP_NAMES) is not None else None
    return Curve(where, "lists", _list(body, "loss"), _list(body, "grad_norm"))


def _list(body: Mapping[str, Any], metric: str) -> dict[int, float]:
    values: list[Any] = next((body[n] for n in NAMES[metric] if isinstance(body.get(n), list)), [])
    return {n: number for n, v in enumerate(values, start=1) if (number := _number(v)) is not None}


def _from_lines(text: str, where: str) -> Curve | None:
    """JSON lines; a line that was cut off is left out."""
    events = []
    for line in text.splitlines():
        if line.lstrip().startswith("{"):
            try:
                events.append(json.loads(line))
            except (ValueError, RecursionError):
                continue
    return _events(events, where, "json lines") if events else None


def _events(events: Iterable[Any], where: str, form: str) -> Curve | None:
    """Of a step that is there twice, the last counts: a run that was continued says it again."""
    found: dict[str, dict[int, float]] = {metric: {} for metric in NAMES}
    for event in events:
        step = _first(event, STEP_NAMES) if isinstance(event, dict) else None
        if step is None:
            continue
        for metric, names in NAMES.items():
            # The last event of a trainer holds the mean of all steps as train_loss.
            value = _first(event, names[:3])
            if value is not None:
                found[metric][int(step)] = value
    return Curve(where, form, found["loss"], found["grad_norm"]) if found["loss"] else None


def _first(body: Mapping[str, Any], names: Iterable[str]) -> float | None:
    return next((n for name in names if (n := _number(body.get(name))) is not None), None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
