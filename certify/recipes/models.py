"""Public configurations of models: what ``matrices/models`` states, and what nobody states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from matrices import files

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a line of ``matrices/models_absent.tsv`` can say is missing, beside a key of config.json.
WHOLE = "configuration"


@dataclass(frozen=True)
class ModelConfig:
    """A model's public configuration.

    config: the keys of its ``config.json``, only those that a source states (None where it states
    null); url, read_on (ISO date), via: the source and how it was read; from_script: the keys
    whose values are those of the published script, because no other source could be read.
    """

    key: str
    config: Mapping[str, Any]
    url: str
    read_on: str
    note: str | None = None
    via: str | None = None
    from_script: tuple[str, ...] = ()


@dataclass(frozen=True)
class Absent:
    """What no source states of a model. missing: ``configuration`` or a key of it."""

    key: str
    missing: str
    reason: str
    looked_in: str
    read_on: str


@lru_cache(maxsize=1)
def _absences() -> dict[str, Absent]:
    return {fields["key"]: Absent(**fields) for fields in files.read_tsv("models_absent.tsv")}


def absent(key: str) -> Absent | None:
    """What is known to be unpublished of a model, None where nothing is."""
    return _absences().get(key)


def model_keys() -> list[str]:
    """Keys of all models whose public configuration is known."""
    return files.names("models")


def load_model(key: str) -> ModelConfig:
    """A model's public configuration by its key. Raises UsageError when it is not known."""
    name = f"models/{key}.toml"
    try:
        raw = files.read_toml(name)
    except FileNotFoundError:
        raise _unknown(key) from None
    source = raw["source"]
    return ModelConfig(
        key=key,
        config={**raw["config"], **dict.fromkeys(raw.get("null", ()))},
        url=source["url"],
        read_on=source["read_on"],
        note=raw.get("note"),
        via=source.get("via"),
        from_script=tuple(source.get("from_script", ())),
    )


def _unknown(key: str) -> UsageError:
    known = absent(key)
    if known is not None:
        return UsageError(
            f"no public configuration of model {key!r}: {known.reason}",
            where=f"matrices/models_absent.tsv, looked for on {known.read_on}",
            expected="a model with a published configuration",
            hint="certify recipes list",
        )
    from difflib import get_close_matches

    near = get_close_matches(key, model_keys(), n=3, cutoff=0.5)
    return UsageError(
        f"the public configuration of model {key!r} is not in our data",
        where="matrices/models",
        expected="a file KEY.toml with the model's config.json and its source",
        hint=f"did you mean: {', '.join(near)}?" if near else None,
    )
