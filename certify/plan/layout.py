"""Parallel layouts, and whether their sizes fit the number of ranks and the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certify.plan.architecture import Architecture

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class Cluster:
    """nodes x npus_per_node ranks, one a device."""

    nodes: int
    npus_per_node: int

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.nodes * self.npus_per_node


@dataclass(frozen=True)
class Fsdp2Layout:
    """fully_shard over fsdp ranks (times replicate), experts over ep and sharded over ep_fsdp.

    param_dtype: of gathered parameters and activations; master_dtype: of stored shards, gradients
    and moments; reduce_dtype: of the reduce-scatter; recompute: every decoder layer keeps its
    input only; ignored: parts whose weights stay whole on every rank; chunk_loss_size: positions
    of a sample whose logits exist at one time, None for all.
    """

    fsdp: int
    replicate: int = 1
    ep: int = 1
    ep_fsdp: int = 1
    micro_batch: int = 1
    grad_accumulation: int = 1
    seq_length: int = 4096
    recompute: bool = True
    param_dtype: str = "bf16"
    reduce_dtype: str = "fp32"
    master_dtype: str = "fp32"
    chunk_loss_size: int | None = None
    ignored: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """Ranks, all of them data parallel."""
        return self.fsdp * self.replicate

    @property
    def tokens(self) -> int:
        """Tokens of one rank's micro-batch."""
        return self.micro_batch * self.seq_length

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.tokens * self.world_size * self.grad_accumulation

    def words(self) -> str:
        """One line for people."""
        parts = [f"fsdp {self.fsdp}"]
        if self.replicate > 1:
            parts.append(f"replicate {self.replicate}")
        if self.ep > 1:
            parts.append(f"ep {self.ep}, ep_fsdp {self.ep_fsdp}")
        parts += [f"micro-batch {self.micro_batch}", "recompute" if self.recompute else "keep all"]
        parts.append(f"reduce {self.reduce_dtype}")
        if self.chunk_loss_size:
            parts.append(f"chunk loss {self.chunk_loss_size}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Recompute:
    """Megatron's recomputation. granularity: full or none; method: uniform (every group of
    ``layers`` layers keeps its input) or block (the first ``layers`` of each chunk do, of each
    pipeline rank with per_rank); activation: the activation function is computed again."""

    granularity: str = "none"
    method: str = "uniform"
    layers: int = 1
    per_rank: bool = False
    activation: bool = False


@dataclass(frozen=True)
class McoreLayout:
    """Megatron's dimensions. etp None: as tp; virtual: chunks a pipeline rank (VPP), 1 without.

    schedule: 1f1b (interleaved when virtual > 1) or dualpipev; stage_layers: layers of each stage
    where the script lists them; reuse_fp32: the fp32 master holds the bf16 parameters and a
    residue (MindSpeed reuse-fp32-param); swap_optimizer: states live in host memory.
    """

    world_size: int
    tp: int = 1
    pp: int = 1
    virtual: int = 1
    cp: int = 1
    ep: int = 1
    etp: int | None = None
    micro_batch: int = 1
    grad_accumulation: int = 1
    seq_length: int = 4096
    sequence_parallel: bool = False
    distributed_optimizer: bool = False
    recompute: Recompute = Recompute()
    schedule: str = "1f1b"
    stage_layers: tuple[int, ...] = ()
    noop_layers: tuple[int, ...] = ()
    reuse_fp32: bool = False
    swap_optimizer: bool = False
    param_dtype: str = "bf16"

    @property
    def expert_tp(self) -> int:
        """Ranks over which one expert is divided."""
        return self.tp if self.etp is None else self.etp

    @property
    def dp(self) -> int:
        """Ranks that hold the same dense weights and see other samples."""
        return self.world_size // (self.tp * self.pp * self.cp)

    @property
    def expert_dp(self) -> int:
        """Ranks that hold the same experts."""
        return self.world_size // (self.expert_tp * self.ep * self.pp)

    @property
    def tokens(self) -> float:
        """Tokens of one rank's micro-batch: its part of the sequence under context parallel."""
        return self.micro_batch * self.seq_length / self.cp

    @property
    def residual_share(self) -> int:
        """By how much tensor parallelism divides what lies between its regions."""
        return self.tp if self.sequence_parallel else 1

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.micro_batch * self.seq_length * self.dp * self.grad_accumulation

    def words(self) -> str:
        """One line for people."""
        parts = [f"tp {self.tp}", f"pp {self.pp}"]
        parts += [f"vpp {self.virtual}"] if self.virtual > 1 else []
        parts += [f"cp {self.cp}"] if self.cp > 1 else []
        parts += [f"ep {self.ep}"] if self.ep > 1 else []
        parts += [f"etp {self.etp}"] if self.etp not in (None, self.tp) else []
        parts += [f"dp {self.dp}", f"micro-batch {self.micro_batch}"]
        parts += ["sequence parallel"] if self.sequence_parallel and self.tp > 1 else []
        parts += ["distributed optimizer"] if self.distributed_optimizer else []
        r = self.recompute
        if r.granularity == "full":
            parts.append(f"recompute {r.method} {r.layers}")
        elif r.activation:
            parts.append("recompute activation function")
        parts += [self.schedule] if self.schedule != "1f1b" else []
        return ", ".join(parts)


Layout = Fsdp2Layout | McoreLayout


def check_fsdp2(layout: Fsdp2Layout, world_size: int, model: Architecture) -> list[str]:
    """Sentences about sizes that do not fit, empty when all do."""
    found = []
    if layout.world_size != world_size:
        found.append(
            f"fsdp {layout.fsdp} x replicate {layout.replicate} is not the {world_size} ranks"
        )
    if layout.ep > 1 and world_size % (layout.ep * layout.ep_fsdp):
        found.append(
            f"ep {layout.ep} x ep_fsdp {layout.ep_fsdp} does not divide {world_size} ranks"
        )
    return found + _check_experts(model, layout.ep)


def check_mcore(layout: McoreLayout, world_size: int, model: Architecture) -> list[str]:
    """Sentences about sizes that do not fit, empty when all do."""
    found = []
    inner = layout.tp * layout.pp * layout.cp
    if layout.world_size != world_size or world_size % inner:
        found.append(f"tp x pp x cp = {inner} does not divide {world_size} ranks")
    elif world_size % (layout.expert_tp * layout.ep * layout.pp):
        found.append(
            f"etp {layout.expert_tp} x ep {layout.ep} x pp {layout.pp} does not divide "
            f"{world_size} ranks"
        )
    heads = [m.heads for layer in model.layers for m in layer.mixers if m.heads]
    if heads and heads[0] % layout.tp:
        found.append(f"tp {layout.tp} does not divide {heads[0]} heads")
    depth = len(model.layers) + len(layout.noop_layers)
    if layout.stage_layers:
        if sum(layout.stage_layers) != depth or len(layout.stage_layers) != layout.pp:
            found.append(f"the list of {sum(layout.stage_layers)} layers is not {depth} in pp")
    elif depth % (layout.pp * layout.virtual):
        found.append(f"{depth} layers cannot be divided over pp {layout.pp} x {layout.virtual}")
    if layout.seq_length % layout.cp:
        found.append(f"cp {layout.cp} does not divide {layout.seq_length} positions")
    return found + _check_experts(model, layout.ep)


def _check_experts(model: Architecture, ep: int) -> list[str]:
    counts = {layer.moe.experts for layer in model.layers if layer.moe}
    if ep > 1 and not counts:
        return [f"ep {ep} without routed experts"]
    return [f"ep {ep} does not divide {n} experts" for n in sorted(counts) if n % ep]
