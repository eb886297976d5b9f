"""Scale a recipe down, keeping every feature of its architecture.

A rule is one line of a table (`rules`): which key, what it becomes, and why. What the published
script leaves open comes from the model's public configuration. The result lists every change, so
that a page can show published value, scaled value and rule side by side. Pure: no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.recipes.scale.families import SCALABLE, features
from certify.recipes.scale.megatron import layers_of, scale_megatron, training_of
from certify.recipes.scale.model import Change, require_scalable, scale_model
from certify.recipes.scale.training import first, scale_parallel, scale_training

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from certify.recipes.scale.formulas import Config

__all__ = [
    "SCALABLE",
    "Change",
    "ScaledRecipe",
    "features",
    "require_scalable",
    "scale_down",
    "scale_model",
]


@dataclass(frozen=True)
class ScaledRecipe:
    """A recipe at another scale: hf_config lacks only what the tokenizer decides (vocab_size and
    the ids of special tokens); training and parallel hold the fields of the run spec;
    world_size: ranks of the candidate."""

    hf_config: Config
    training: Config
    parallel: Config
    data: Config
    resume: Config
    changes: tuple[Change, ...]
    world_size: int


def scale_down(
    recipe: Mapping[str, Any], public: Mapping[str, Any], scale: Mapping[str, Any]
) -> ScaledRecipe:
    """Scale a published recipe.

    recipe: its facts as in ``matrices/recipes``; public: the model's public configuration
    (transformers keys); scale: a parsed file of ``matrices/scales``. The recipe's backend decides
    which layout it becomes.
    Raises CannotJudgeError for a model type whose features the rules do not keep.
    """
    megatron = recipe.get("backend") == "mcore"
    size = dict(scale["model"])
    if megatron:
        size["num_hidden_layers"] = layers_of(recipe, size["num_hidden_layers"])
    hf_config, changes = scale_model(dict(public), size)
    training, training_changes = scale_training(recipe, dict(public), scale)
    if megatron:
        training = training_of(training, scale)
        parallel, world_size, parallel_changes = scale_megatron(recipe, hf_config, scale)
    else:
        parallel, parallel_changes = scale_parallel(recipe, hf_config, scale)
        world_size = scale["parallel"]["world_size"]
    data = {**scale["data"]}
    resume = dict(scale["resume"])
    # The save step is made an epoch boundary by the number of samples in an epoch.
    data["samples"] = resume["save_step"] * data["global_batch"]
    sequence = Change(
        "data.seq_length", recipe["training"].get("seq_length"), data["seq_length"], "fixed"
    )
    precision = Change(
        "training.dtype",
        first(recipe["training"].get("dtype"), recipe["parallel"].get("param_dtype")),
        scale["training"]["dtype"],
        "fp32 tier: differences are faults, not rounding",
    )
    return ScaledRecipe(
        hf_config=hf_config,
        training=training,
        parallel=parallel,
        data=data,
        resume=resume,
        changes=(*changes, sequence, *training_changes, precision, *parallel_changes),
        world_size=world_size,
    )
