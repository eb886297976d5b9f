"""The layout of a published Megatron-Core row, scaled down: every dimension that it divides stays
divided, by two, as far as the ranks of the scale go and Megatron's own layers run here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.recipes.scale.families import HEADS, KV_HEADS, is_moe, value
from certify.recipes.scale.model import Change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certify.recipes.scale.formulas import Config

_PARTS = 2
_NOT_HERE = "1: not run without Transformer Engine"
_EXPERTS_AND_TP = (
    "1 beside experts: with tensor parallel they need sequence parallel, not run without"
    " Transformer Engine"
)
_AUX_FORMULA = "megatron-micro-batch"


def _divided(published: Any) -> int:
    return _PARTS if isinstance(published, int) and published > 1 else 1


def _divides(config: Mapping[str, Any]) -> bool:
    """Whether heads and feed-forward width of a scaled model divide over tensor-parallel ranks."""
    heads, groups = value(config, HEADS) or 0, value(config, KV_HEADS) or value(config, HEADS) or 0
    width = config.get("intermediate_size") or _PARTS
    return all(number % _PARTS == 0 for number in (heads, groups, width))


def layers_of(recipe: Mapping[str, Any], depth: int) -> int:
    """The scale's depth, or the next that the chunks of an interleaved schedule divide."""
    published = recipe["parallel"]
    if _divided(published.get("pp")) == 1 or _divided(published.get("vpp")) == 1:
        return depth
    chunks = _PARTS * _PARTS
    return -(-depth // chunks) * chunks


def scale_megatron(
    recipe: Mapping[str, Any], hf_config: Config, scale: Mapping[str, Any]
) -> tuple[Config, int, list[Change]]:
    """(fields of the run spec's layout, number of ranks, changes).

    Pipeline and tensor parallel come first, then expert parallel with the data-parallel ranks
    that it divides, then data parallel by itself.
    """
    published, ranks = recipe["parallel"], int(scale["parallel"]["mcore_most_ranks"])
    moe = is_moe(hf_config)
    pp = min(_divided(published.get("pp")), ranks)
    tensor = not moe and _divides(hf_config)
    tp = min(_divided(published.get("tp")), ranks // pp) if tensor else 1
    data = (published.get("derived") or {}).get("dp")
    wide = max(_divided(data), _divided(published.get("ep")) if moe else 1)
    dp = min(wide, ranks // (pp * tp))
    if pp * tp * dp == 1:
        dp = min(_PARTS, ranks)  # something must be divided, or nothing is certified
    recompute = (published.get("recompute") or {}).get("granularity")
    parallel: Config = {
        "tp_size": tp,
        "pp_size": pp,
        "vpp_size": _divided(published.get("vpp")) if pp > 1 else 1,
        "ep_size": min(_divided(published.get("ep")), dp) if moe else 1,
        "moe_dispatcher": _dispatcher(published),
        "distributed_optimizer": bool(published.get("distributed_optimizer")) and dp > 1,
        "recompute": "full" if recompute == "full" else "none",
    }
    rules = {
        "tp_size": _EXPERTS_AND_TP if moe else f"{_PARTS} where published above 1 and divisible",
        "pp_size": f"{_PARTS} where published above 1",
        "vpp_size": f"{_PARTS} where published above 1, the interleaved schedule",
        "ep_size": f"{_PARTS} where published above 1",
        "moe_dispatcher": "as published, in Megatron's own form",
        "distributed_optimizer": "as published, where there are data-parallel ranks",
        "recompute": "every layer where published as full",
    }
    names = {"tp_size": "tp", "pp_size": "pp", "vpp_size": "vpp", "ep_size": "ep"}
    names |= {"moe_dispatcher": "dispatcher", "distributed_optimizer": "distributed_optimizer"}
    said = {key: published.get(name) for key, name in names.items()} | {"recompute": recompute}
    changes = [
        Change(f"parallel.{key}", said[key], new, rules[key]) for key, new in parallel.items()
    ]
    changes += [
        Change("parallel.dp", data, dp, "ranks that are left"),
        Change("parallel.cp_size", published.get("cp"), 1, _NOT_HERE),
        Change(
            "parallel.sequence_parallel",
            published.get("sequence_parallel"),
            False,
            _NOT_HERE.replace("1:", "off:"),
        ),
    ]
    return parallel, tp * pp * dp, changes


def _dispatcher(published: Mapping[str, Any]) -> str:
    """alltoall for every published form of it, else Megatron's default."""
    return "alltoall" if "alltoall" in str(published.get("dispatcher")) else "allgather"


def training_of(training: Config, scale: Mapping[str, Any]) -> Config:
    """The training section as Megatron-Core carries it out: several micro-batches, and the
    auxiliary loss over the tokens of each."""
    changed = {**training, "micro_batch": int(scale["parallel"]["mcore_micro_batch"])}
    if training["aux_loss_coef"]:
        changed["aux_loss_formula"] = _AUX_FORMULA
    return changed
