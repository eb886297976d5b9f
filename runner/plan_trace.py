"""``python -m runner.plan_trace SPEC.json``: trace one training step on fake tensors.

The runner's own model, parallelisation and optimizer at the real number of ranks, on a process
group that moves nothing and tensors that hold nothing. Routing is taken as balanced: every expert
receives the same number of tokens.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from certify.runspec import ModelSpec
from certify.runspec.plan import PlanSpec, read_plan_spec
from runner import loss, models
from runner.command import run_file
from runner.parallel import expert, fsdp, mesh, shards
from runner.planning.ledger import Ledger

if TYPE_CHECKING:
    from torch import nn

SCHEMA = "certify.plantrace/1"
# The name under which transformers finds the attention that is traced.
ATTENTION = "certify_plan"
# Positions of a chunk of the gated delta rule, in transformers and in flash-linear-attention.
DELTA_CHUNK = 64


def shortened(hf_config: dict[str, Any], layers: int) -> dict[str, Any]:
    """The configuration with this many layers; lists with one entry a layer are cut."""
    key = "num_hidden_layers" if "num_hidden_layers" in hf_config else "num_layers"
    depth = hf_config[key]
    cut = {
        k: v[:layers] if isinstance(v, list) and len(v) == depth and depth > layers else v
        for k, v in hf_config.items()
    }
    return {**cut, key: layers}


# -- balanced routing: how many rows travel cannot be read from tensors that hold nothing ---------


def _balanced_splits(
    chosen: torch.Tensor, n_experts: int, ep_size: int, group: Any
) -> tuple[list[int], list[int], torch.Tensor]:
    leaving = torch.empty(n_experts, dtype=torch.int64)
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving, group=group)
    rows, more = divmod(chosen.numel(), ep_size)
    even = [rows + (i < more) for i in range(ep_size)]
    return even, [even[0]] * ep_size, arriving.view(ep_size, -1)


def _balanced_run(stock: Any, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    ids = rows.new_empty((rows.shape[0], 1), dtype=torch.int64)
    return stock(rows, ids, rows.new_ones((rows.shape[0], 1)))


class _Fused(torch.autograd.Function):  # type: ignore[misc]
    """What a fused attention kernel keeps and returns, whatever this machine would run."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        samples, heads, length, _ = q.shape
        result = q.new_empty((samples, length, heads, v.shape[-1]))
        log_sums = q.new_empty((samples, heads, length), dtype=torch.float32)
        ctx.save_for_backward(q, k, v, result, log_sums)
        return result

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty_like(t) for t in ctx.saved_tensors[:3])


def _fused_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
) -> tuple[torch.Tensor, None]:
    return _Fused.apply(query, key, value), None


class _FusedDelta(torch.autograd.Function):  # type: ignore[misc]
    """What a fused chunked delta rule keeps: its inputs, and a row of a chunk's matrix a token."""

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        value = tensors[2]
        # [samples, positions, heads, chunk]
        inside = value.new_empty((*value.shape[:3], DELTA_CHUNK))
        ctx.save_for_backward(*tensors, inside)
        return torch.empty_like(value, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty_like(t) for t in ctx.saved_tensors[:5])


def _fused_delta(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, g: torch.Tensor,
    beta: torch.Tensor, *_: Any, **__: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    return _FusedDelta.apply(query, key, value, g, beta), None


def _fuse_delta(model: nn.Module) -> None:
    """The plain recurrence is a Python loop over positions: thousands of operators a layer."""
    code: Any = sys.modules[type(model).__module__]
    if hasattr(code, "torch_chunk_gated_delta_rule"):
        code.torch_chunk_gated_delta_rule = _fused_delta
    for module in model.modules():
        if hasattr(module, "chunk_gated_delta_rule"):  # transformers 4.57: bound at construction
            module.chunk_gated_delta_rule = _fused_delta


def _prepare() -> None:
    """Replace what would read values: token counts, and whether samples are packed."""
    from transformers import AttentionInterface, AttentionMaskInterface, masking_utils

    expert._splits = _balanced_splits
    expert._local_ids = lambda arriving: arriving
    expert._run_local = _balanced_run
    AttentionInterface.register(ATTENTION, _fused_attention)
    AttentionMaskInterface.register(ATTENTION, lambda *_, **__: None)
    # Samples are not packed. Without values transformers cannot know, and writes out a mask.
    masking_utils.find_packed_sequence_indices = lambda *_: None


# -- one step -------------------------------------------------------------------------------------


def _chunk_loss(model: nn.Module, labels: torch.Tensor, size: int) -> None:
    """Make the head return the summed loss, computing `size` positions at a time."""
    head: Any = model.get_output_embeddings()
    linear = head.forward

    def part(hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        ones = torch.ones_like(targets, dtype=torch.float32)
        return loss.cross_entropy_sum(linear(hidden), targets, ones)

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        total = hidden.new_zeros((), dtype=torch.float32)
        for h, t in zip(hidden.split(size, 1), labels.split(size, 1), strict=True):
            total = total + checkpoint(part, h, t, use_reentrant=False)
        return total

    head.forward = forward


def _mark_layers(model: nn.Module, ledger: Ledger) -> None:
    """Name the moments of the backward pass by the layer that it goes through."""
    layers = list(model.get_decoder().layers)

    def hook(index: int) -> Any:
        name = {
            1: "backward of the second layer",
            0: "backward of the first layer",
            len(layers) - 1: "backward of the last layer",
        }

        def after(module: Any, args: Any, output: Any) -> None:
            hidden = output[0] if isinstance(output, tuple) else output
            if hidden.requires_grad:
                moment = name.get(index, "backward between")
                hidden.register_hook(lambda _: ledger.moment(moment))

        return after

    for index, layer in enumerate(layers):
        layer.register_forward_hook(hook(index))


def _step(model: Any, spec: PlanSpec, local: list[Any], optimizer: Any, ledger: Ledger) -> None:
    ids = torch.zeros((spec.micro_batch, spec.seq_length), dtype=torch.int64)
    ledger.moment("forward")
    output = model(input_ids=ids, use_cache=False).logits
    ledger.moment("loss")
    total = output
    if output.ndim > 0:
        total = loss.cross_entropy_sum(output, ids, torch.ones_like(ids, dtype=torch.float32))
    total.backward()
    del output  # a training loop holds the logits until its backward pass ends
    ledger.moment("optimizer")
    for shard in local:
        gradient = shard.parameter.grad
        shard.local.grad = None if gradient is None else shards.local_part(gradient)
    torch._foreach_mul_([s.local.grad for s in local if s.local.grad is not None], 0.5)
    optimizer.step()
    shards.clear_gradients(local)


def trace(spec: PlanSpec, layers: int) -> dict[str, Any]:
    """Bytes and collectives of the second step of a model of this depth."""
    started = time.perf_counter()
    meshes = mesh.build(spec.parallel, "cpu")
    model: Any = models.build(
        ModelSpec(spec.hf_config, "", "", spec.dtype, ATTENTION),
        shortened(spec.hf_config, layers),
    )
    _fuse_delta(model)
    wrapped = fsdp.parallelise(model, spec.parallel, meshes)
    with FakeTensorMode(allow_non_fake_inputs=True):
        models.materialise(model, torch.device("cpu"))
        local = shards.collect(model, meshes, wrapped)
        optimizer = torch.optim.AdamW([s.local for s in local], lr=1e-3, foreach=True)
        if spec.chunk_loss_size:
            ids = torch.zeros((spec.micro_batch, spec.seq_length), dtype=torch.int64)
            _chunk_loss(model, ids, spec.chunk_loss_size)
        with Ledger() as first:
            _step(model, spec, local, optimizer, first)
        gc.collect()
        ledger = Ledger()
        parameters = ledger.adopt(s.local for s in local)
        states = [v for state in optimizer.state.values() for v in state.values()]
        moments = ledger.adopt(v for v in states if v.numel() > 1)
        ledger.adopt(model.buffers())
        _mark_layers(model, ledger)
        with ledger:
            _step(model, spec, local, optimizer, ledger)
    return {
        "layers": layers,
        "parameters": sum(s.local.numel() for s in local),
        "parameter_bytes": parameters,
        "optimizer_bytes": moments,
        "peaks": ledger.peaks,
        "collectives": [
            {"kind": kind, "ranks": ranks, "calls": calls, "bytes": size}
            for (kind, ranks), (calls, size) in sorted(ledger.collectives.items())
        ],
        "unmatched": list(wrapped.unmatched),
        "wall_s": time.perf_counter() - started,
    }


def run(spec: PlanSpec) -> None:
    """Trace every depth of the spec and write the result."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    _prepare()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=spec.world_size)
    traces = [trace(spec, layers) for layers in spec.layers]
    dist.destroy_process_group()
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    document = {"schema": SCHEMA, "traces": traces, "host_peak_bytes": peak_kib * 1024}
    Path(spec.out_file).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the command line; returns the exit code (`runner.command`)."""
    return run_file("runner.plan_trace", arguments, lambda path: run(read_plan_spec(path)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
