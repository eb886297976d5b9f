"""The plan: what both sides must do, fixed before either is launched (CRITERIA, principle 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.recipes.scale.families import is_moe
from certify.recipes.schedule import learning_rate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.campaign.specs import Inputs

SCHEMA = "certify.campaign-plan/1"


def build_plan(
    inputs: Inputs,
    *,
    scale: str,
    stage: str,
    criteria: Mapping[str, str],
    runs: Mapping[str, str],
    requested: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The plan as JSON. runs: phase -> run id; criteria: version and sha256 of the file;
    requested: what the phases that were asked for add to it.

    The learning rates are computed here from the schedule's definition, and the batch digests
    were computed by the preparation without the runner's sampler.
    """
    training = inputs.training()
    steps = [
        {"step": step, "lr": learning_rate(training, step), **_planned_batch(inputs, step)}
        for step in range(1, training.steps + 1)
    ]
    return {
        "schema": SCHEMA,
        "campaign_id": inputs.campaign_id,
        "recipe_id": inputs.recipe_id,
        "scale": scale,
        "stage": stage,
        "device": inputs.device,
        "precision": "fp32",
        "moe": is_moe(inputs.hf_config),
        "criteria": dict(criteria),
        "runs": dict(runs),
        "inject": {"side": inputs.fault[0], "name": inputs.fault[1]} if inputs.fault else None,
        "sides": {
            "candidate": {"backend": inputs.backend, "world_size": inputs.world_size},
            "reference": {"backend": inputs.reference, "world_size": 1},
        },
        "expected": {
            "weights_digest": inputs.prepared["weights_digest"],
            "steps": steps,
            "effective": {
                "beta1": training.beta1,
                "beta2": training.beta2,
                "eps": training.eps,
                "weight_decay": training.weight_decay,
                "clip_grad": training.clip_grad,
                "num_parameters": inputs.prepared["num_parameters"],
                "num_layers": inputs.hf_config["num_hidden_layers"],
                "hidden_size": inputs.hf_config["hidden_size"],
                "aux_loss_coef": training.aux_loss_coef,
                **_formula(inputs, training.aux_loss_formula),
                # Which parameters decay is not seen in a curve: a decayed norm moves by far less
                # than any gate's limit in so few steps.
                **_decayed(inputs, training.weight_decay),
            },
        },
        "resume": {
            "save_step": inputs.scaled.resume["save_step"],
            "steps": inputs.scaled.resume["steps"],
            "save_point": inputs.scaled.resume["save_point"],
            "controls": list(inputs.scaled.resume["controls"]),
        },
        **(requested or {}),
    }


def _formula(inputs: Inputs, formula: str) -> dict[str, str]:
    moe = inputs.hf_config.get("num_experts") is not None
    return {"aux_loss_formula": formula} if moe else {}


def _decayed(inputs: Inputs, weight_decay: float) -> dict[str, int]:
    return {"decayed_parameters": inputs.prepared["matrix_parameters"]} if weight_decay else {}


def _planned_batch(inputs: Inputs, step: int) -> dict[str, Any]:
    batch = inputs.prepared["batches"][step - 1]
    keys = ("tokens", "supervised_tokens", "tokens_sha256", "mask_sha256")
    return {"batch": step - 1, **{key: batch[key] for key in keys}}
