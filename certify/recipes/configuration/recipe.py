"""A recipe from a configuration and the model folder that it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.recipes.configuration.standing import recorded, refuse_unsupported
from certify.recipes.importers.base import script_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.recipes.configuration.read import Configuration

# recipe key of the training section -> argument
_TRAINING = {
    "optimizer": "training.optimizer",
    "lr": "training.lr",
    "min_lr": "training.min_lr",
    "schedule": "training.lr_scheduler_type",
    "warmup_fraction": "training.warmup_ratio",
    "weight_decay": "training.weight_decay",
    "beta1": "training.adam_beta1",
    "beta2": "training.adam_beta2",
    "eps": "training.adam_epsilon",
    "clip_grad": "training.max_grad_norm",
    "seed": "training.seed",
    "seq_length": "data.cutoff_len",
    "steps": "training.max_steps",
    "router_aux_loss_coef": "training.router_aux_loss_coef",
}
_PARALLEL = {
    "fsdp_size": "parallel.fsdp_size",
    "ep": "parallel.ep_size",
    "ep_fsdp_size": "parallel.ep_fsdp_size",
    "cp": "parallel.cp_size",
    "fsdp_modules": "parallel.fsdp_modules",
    "ignored_modules": "parallel.ignored_modules",
    "reshard_after_forward": "parallel.reshard_after_forward",
    "param_dtype": "parallel.param_dtype",
    "reduce_dtype": "parallel.reduce_dtype",
}
_EXPERTS = {"ep_modules": "parallel.ep_modules", "ep_fsdp_modules": "parallel.ep_fsdp_modules"}


def model_folder(found: Configuration) -> Path:
    """The folder of ``model.model_name_or_path``. Raises UsageError for one that is not there."""
    folder = Path(found.value("model.model_name_or_path"))
    if not folder.is_dir():
        raise UsageError(
            f"no such model folder: {folder}",
            where=found.place("model.model_name_or_path"),
            expected="a local Hugging Face model folder (config.json): nothing is downloaded",
            hint="certify run CONFIG.yaml model.model_name_or_path=FOLDER",
        )
    return folder


def stage_of_configuration(found: Configuration) -> str:
    """pretrain or sft: pretrain where its data manager (mg) or its stage (pt) is asked for."""
    pretrain = (
        found.value("data.data_manager_type") == "mg" or found.value("training.stage") == "pt"
    )
    return "pretrain" if pretrain else "sft"


def recipe_of_configuration(found: Configuration, of_folder: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a recipe: the configuration's values and the backend's defaults, over what the
    model folder itself says. of_folder: `certify.recipes.folder.recipe_of` of that folder.

    Raises UsageError for a key that the built-in engine cannot follow.
    """
    refuse_unsupported(found)
    experts = "ep_modules" in of_folder["parallel"]
    parallel = {key: found.value(name) for key, name in _PARALLEL.items()}
    if experts:
        # The folder knows where its experts are; what is stated wins.
        stated = {key: found.values[name] for key, name in _EXPERTS.items() if name in found.values}
        parallel |= {key: of_folder["parallel"][key] for key in _EXPERTS} | stated
    parallel["recompute"] = {
        "enabled": found.value("parallel.recompute"),
        "modules": found.value("parallel.recompute_modules"),
    }
    training = {key: found.value(name) for key, name in _TRAINING.items()}
    model = {key: value for key, value in of_folder["model"].items() if key != "model_id"}
    if model_id := found.value("model.model_id"):
        model["model_id"] = model_id
    return {
        **of_folder,
        "id": f"yaml-{script_id(found.path)}",
        "kind": "yaml",
        "name": Path(found.path).name,
        "stage": stage_of_configuration(found),
        "source": {
            **of_folder["source"],
            "configuration": Path(found.path).name,
            "configuration_sha256": found.sha256,
            "overrides": [w for w in found.overrides if "_hub_token" not in w],
        },
        "model": model,
        "batch": {
            "micro": found.value("training.per_device_train_batch_size"),
            "grad_accumulation": found.value("training.gradient_accumulation_steps"),
            "global": found.raw.get("batch", {}).get("global"),
        },
        "parallel": {key: value for key, value in parallel.items() if value is not None},
        "training": training,
        "data": {**of_folder["data"], "dataset": found.value("data.dataset")},
        "optimisations": list(found.raw.get("optimisations", ())),
        "configuration": recorded(found),
    }
