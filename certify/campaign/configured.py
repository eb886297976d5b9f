"""What a campaign takes from a configuration of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign.described import described
from certify.campaign.request import STAGES
from certify.errors import CannotJudgeError, UsageError
from certify.recipes.configuration import (
    Datasets,
    datasets_of,
    notes_of,
    read_configuration,
    recipe_of_configuration,
)
from certify.recipes.configuration.recipe import model_folder, stage_of_configuration
from certify.recipes.folder import read_config, recipe_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from certify.recipes.configuration import Configuration

# At scale tiny; the only device that this version plans campaigns for.
_DEVICE = "cpu"


@dataclass(frozen=True)
class Configured:
    """recipe, public: as of a published row; stage: pretrain or sft; datasets: the local files;
    tokenizer: a folder, or None for the embedded one; notes: what a person should know."""

    recipe: dict[str, Any]
    public: dict[str, Any]
    stage: str
    datasets: Datasets
    tokenizer: str | None
    notes: tuple[str, ...]


def from_configuration(args: argparse.Namespace, overrides: Sequence[str]) -> Configured:
    """Read the YAML of the command line. Raises UsageError, with file and line, for what is wrong
    in it, and CannotJudgeError for a stage or an architecture that this version cannot run."""
    if args.backend not in (None, "fsdp2"):
        raise UsageError(
            f"a YAML of the FSDP2 backend with the backend {args.backend}",
            where=f"--backend {args.backend}",
            expected="fsdp2",
        )
    found = read_configuration(Path(args.recipe), overrides)
    stage = stage_of_configuration(found)
    if stage not in STAGES:
        raise CannotJudgeError(
            f"stage {stage} cannot be run by this version",
            where=found.place("training.stage"),
            expected=f"one of {', '.join(STAGES)} (data_manager_type mg, or stage pt)",
        )
    datasets = datasets_of(found) if args.data is None else Datasets()
    tokenizer, folder = _tokenizer(found), model_folder(found)
    config = read_config(folder)
    of_folder, cost = recipe_of(folder, config, described(config, str(folder / "config.json")))
    recipe = recipe_of_configuration(found, of_folder)
    notes = [f"recipe made from {found.path} and {folder / 'config.json'}", cost.said()]
    if not datasets.paths and args.data is None:
        notes.append("data.dataset is not given: the embedded corpus")
    notes += notes_of(found, _DEVICE, stage)
    return Configured(recipe, config, stage, datasets, tokenizer, tuple(notes))


def _tokenizer(found: Configuration) -> str | None:
    named = found.value("model.tokenizer_name_or_path")
    if named is None:
        return None
    if not Path(named).is_dir():
        raise UsageError(
            f"no such tokenizer folder: {named}",
            where=found.place("model.tokenizer_name_or_path"),
            expected="a local Hugging Face tokenizer folder: nothing is downloaded",
        )
    return str(Path(named).absolute())
