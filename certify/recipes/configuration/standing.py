"""What each key of a configuration does in a run of ours, from ``matrices/fsdp2_standing.tsv``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from certify.errors import UsageError
from certify.recipes.configuration.read import defaults
from matrices import files

if TYPE_CHECKING:
    from certify.recipes.configuration.read import Configuration

FILE = "fsdp2_standing.tsv"
# Never shown and never recorded: access to somebody's hub.
SECRET = ("model.hf_hub_token", "model.ms_hub_token", "model.om_hub_token")
_SAID = {
    "scaled": "replaced by the scale",
    "neutral": "without effect on numbers here",
    "tuning": "without effect: acts in fine-tuning only",
    "absent": "not trained: not in the stock class",
}


class Standing(NamedTuple):
    """standing: one of the words that the table explains; why: in a few words, or empty."""

    standing: str
    why: str


@lru_cache(maxsize=1)
def standings() -> dict[str, Standing]:
    """``section.name`` -> standing, for every argument of the backend."""
    return {
        f"{row['section']}.{row['name']}": Standing(row["standing"], row["why"])
        for row in files.read_tsv(FILE)
    }


def refuse_unsupported(found: Configuration) -> None:
    """Raise UsageError for a key that would change the training and cannot be followed here."""
    for name, value in found.values.items():
        standing = standings()[name].standing
        if standing == "foreign":
            raise UsageError(
                f"{name} is no key of a training run: {standings()[name].why}",
                where=found.place(name),
                expected="sections model, data, parallel, training, optimization",
            )
        if standing == "fixed" and value != defaults()[name]:
            raise UsageError(
                f"{name} {value!r} cannot be followed by the built-in engine",
                where=found.place(name),
                expected=f"{defaults()[name]!r}, the backend's default",
            )


def recorded(found: Configuration) -> dict[str, dict[str, Any]]:
    """What was given and what it does, for the recipe of the campaign; secrets left out."""
    return {
        name: {
            "value": "(not recorded)" if name in SECRET else value,
            "place": found.place(name).rpartition("/")[2],
            "standing": standings()[name].standing,
        }
        for name, value in sorted(found.values.items())
    }


def notes_of(found: Configuration, device: str, stage: str) -> list[str]:
    """One line for each kind of key that was given and does not act as stated on this device."""
    groups: dict[str, list[str]] = {}
    for name, value in found.values.items():
        one = standings()[name]
        if name in SECRET or one.standing in ("used", "fixed") or value == defaults()[name]:
            continue
        if one.standing == "tuning" and stage == "sft":
            continue
        if one.standing == "npu":
            if device != "npu":
                text = f"not in force on {device} (NPU only)"
                groups.setdefault(text, []).append(f"{name} ({_line(found, name)})")
            continue
        why = f" ({one.why})" if one.why else ""
        groups.setdefault(_SAID[one.standing], []).append(f"{name}{why}")
    return [f"{said}: {', '.join(names)}" for said, names in groups.items()]


def _line(found: Configuration, name: str) -> str:
    line = found.place(name).rpartition(":")[2]
    return f"line {line}" if not found.place(name).startswith("<") else "command line"
