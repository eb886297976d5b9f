"""The models and layouts that faults are seeded into: ``matrices/selftest.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.campaign.reference_side import reference_backend
from certify.recipes.scale import ScaledRecipe
from certify.recipes.scale.families import is_moe
from matrices import files

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "certify.selftest/1"


@dataclass(frozen=True)
class Case:
    """One model in one layout. has: what faults may need (`runner.callpoints.Fault.needs`)."""

    name: str
    summary: str
    world_size: int
    model: dict[str, Any]
    parallel: dict[str, Any]
    training: dict[str, Any]
    masked: bool

    @property
    def has(self) -> frozenset[str]:
        """Needs of faults that this case meets."""
        found = {
            "tied": bool(self.model.get("tie_word_embeddings")),
            "router-bias": bool(self.training.get("router_bias_update_rate")),
            "aux-loss": self.training.get("aux_loss_coef", 0) > 0,
            "mask": self.masked,
            "accumulation": True,
        }
        return frozenset(name for name, is_so in found.items() if is_so)

    def fits(self, fault: Mapping[str, Any]) -> bool:
        """Whether a fault (as the runner lists it) would change anything here."""
        if fault["needs_experts"] and not is_moe(self.model):
            return False
        backend = "fsdp2" if fault["side"] == "candidate" else reference_backend(self.model)
        if fault["needs_tensor_parallel"] or backend not in fault["backends"]:
            return False
        if fault["needs_peers"] and self.world_size == 1:
            return False
        return not fault["needs"] or fault["needs"] in self.has


def read_cases() -> tuple[dict[str, Any], tuple[Case, ...]]:
    """(what all cases share, the cases)."""
    body = files.read_toml("selftest.toml")
    models = {row["name"]: row.get("model") for row in body["case"]}
    cases = tuple(
        Case(
            name=row["name"],
            summary=row["summary"],
            world_size=row["world_size"],
            model=dict(models[row.get("same_model_as", row["name"])] or {}),
            parallel=dict(row["parallel"]),
            training={**body["training"], **row["training"]},
            masked=bool(row.get("masked", False)),
        )
        for row in body["case"]
    )
    return {key: value for key, value in body.items() if key != "case"}, cases


def scaled(shared: Mapping[str, Any], case: Case, seed: int) -> ScaledRecipe:
    """A case with a seed, as a campaign would have scaled it."""
    resume = dict(shared["resume"])
    data = {
        **shared["data"],
        "weights_seed": 1000 + seed,
        "samples": resume["save_step"] * shared["data"]["global_batch"],
    }
    return ScaledRecipe(
        hf_config=dict(case.model),
        training={**case.training, "seed": seed, "global_batch": data["global_batch"]},
        parallel=dict(case.parallel),
        data=data,
        resume=resume,
        changes=(),
        world_size=case.world_size,
    )
