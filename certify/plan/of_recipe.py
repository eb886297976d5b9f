"""The layout that a recipe states, and what had to be assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.errors import CannotJudgeError
from certify.plan.layout import Cluster, Fsdp2Layout, McoreLayout, Recompute

if TYPE_CHECKING:
    from certify.plan.layout import Layout
    from certify.recipes.load import Recipe


# Options of scripts that save memory in ways that no formula here knows.
_NOT_MODELLED = (
    "swap-attention",
    "share-kvstates",
    "kv-compress",
    "o2-optimizer",
    "o2-gradient",
    "tp-2d",
)


def cluster_of(recipe: Recipe, nodes: int | None = None, npus: int | None = None) -> Cluster:
    """The script's cluster, else the list's; what the user gives comes first."""
    stated, row = recipe.cluster, recipe.row
    found_nodes = nodes or stated.nodes or (row.nodes if row else None)
    found_npus = npus or stated.npus_per_node or (row.npus_per_node if row else None)
    if found_nodes is None or found_npus is None:
        raise CannotJudgeError(
            "neither script nor list states the cluster",
            where=recipe.id,
            hint="--nodes N --npus-per-node M",
        )
    return Cluster(found_nodes, found_npus)


def _length(recipe: Recipe) -> int:
    length = recipe.training.seq_length or (recipe.row.seq_length if recipe.row else None)
    if length is None:
        raise CannotJudgeError("no source states the sequence length", where=recipe.id)
    return length


def fsdp2_layout(recipe: Recipe, cluster: Cluster) -> tuple[Fsdp2Layout, list[str]]:
    """The FSDP2 layout on this cluster. Where the recipe is for another backend or another
    number of ranks, everything is sharded over all ranks and layers are recomputed."""
    p, notes = recipe.parallel, []
    world = cluster.world_size
    own = recipe.backend == "fsdp2" or recipe.source.path.startswith("examples/fsdp2")
    fsdp = p.fsdp_size if own and p.fsdp_size else world
    ep, ep_fsdp = (p.ep or 1, p.ep_fsdp_size or 1) if own else (1, 1)
    if fsdp != world and world != (recipe.cluster.world_size or world):
        fsdp, ep_fsdp = world, max(1, world // ep)
        notes.append(f"sharded over {world} ranks instead of the recipe's {p.fsdp_size}")
    if not own:
        notes.append("no FSDP2 script: fully sharded over all ranks, every layer recomputed")
    recompute = bool(p.recompute.get("enabled", False)) if own else True
    if p.param_dtype is None or not own:
        notes.append("param_dtype not stated: bf16 (default of upstream's arguments)")
    reduce_dtype = p.reduce_dtype if own else None
    if reduce_dtype is None:
        notes.append("reduce_dtype not stated: fp32 (default of upstream's arguments)")
    notes.append("shards, gradients and moments taken as fp32")
    chunk = recipe.raw.get("optimisation_values", {}).get("chunk_loss_size") if own else None
    micro = recipe.batch.micro or 1
    return Fsdp2Layout(
        fsdp=fsdp,
        replicate=max(1, world // fsdp),
        ep=ep,
        ep_fsdp=ep_fsdp,
        micro_batch=micro,
        grad_accumulation=_accumulation(recipe, world, micro),
        seq_length=_length(recipe),
        recompute=recompute,
        param_dtype=(p.param_dtype if own else None) or "bf16",
        reduce_dtype=reduce_dtype or "fp32",
        chunk_loss_size=chunk,
        ignored=p.ignored_modules or () if own else (),
    ), notes


def _accumulation(recipe: Recipe, data_parallel: int, micro: int) -> int:
    """Micro-batches of a rank and step: global batch / (data parallel ranks x micro-batch)."""
    whole = recipe.batch.global_
    if whole and data_parallel:
        return max(1, whole // (data_parallel * micro))
    return recipe.batch.grad_accumulation or 1


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(n) for n in (text or "").split(",") if n.strip())


def mcore_layout(recipe: Recipe, cluster: Cluster) -> tuple[McoreLayout, list[str]]:
    """The Megatron layout on this cluster, as the script states it."""
    p, r = recipe.parallel, recipe.parallel.recompute
    options = recipe.raw.get("optimisations", ())
    tp, pp, cp = p.tp or 1, p.pp or 1, p.cp or 1
    world = cluster.world_size
    granularity = "full" if r.get("granularity") == "full" else "none"
    etp = p.etp
    notes = []
    if p.moe_tp_extend_ep:
        etp = 1
        notes.append("moe-tp-extend-ep: experts are divided over tp x ep ranks, none is split")
    unknown = [option for option in _NOT_MODELLED if option in options]
    if unknown:
        notes.append(f"an upper bound: {', '.join(unknown)} not modelled")
    micro = recipe.batch.micro or 1
    dp = max(1, world // (tp * pp * cp))
    return McoreLayout(
        world_size=world,
        tp=tp,
        pp=pp,
        virtual=p.vpp or 1,
        cp=cp,
        ep=(p.ep or 1) * (tp if p.moe_tp_extend_ep else 1),
        etp=etp,
        micro_batch=micro,
        grad_accumulation=_accumulation(recipe, dp, micro),
        seq_length=_length(recipe),
        sequence_parallel=bool(p.sequence_parallel) and tp > 1,
        distributed_optimizer=bool(p.distributed_optimizer),
        recompute=Recompute(
            granularity,
            r.get("method", "uniform"),
            int(r.get("num_layers", 1)),
            bool(r.get("per_pp_rank")),
            bool(r.get("activation_function")),
        ),
        schedule="dualpipev" if p.schedule == "dualpipev" else "1f1b",
        stage_layers=_numbers(p.num_layer_list),
        noop_layers=_numbers(p.noop_layers),
        reuse_fp32="reuse-fp32-param" in options,
        swap_optimizer="swap-optimizer" in options,
    ), notes


def layout_of(recipe: Recipe, backend: str, cluster: Cluster) -> tuple[Layout, list[str]]:
    """The layout for a backend; Legacy scripts are laid out as Megatron-Core."""
    if backend == "fsdp2":
        return fsdp2_layout(recipe, cluster)
    return mcore_layout(recipe, cluster)
