"""Who is timed by `gpu_throughput`: each makes a function that trains one step, loss returned.

torchtitan is not among them: its models are its own, and no configuration of it is kept here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

ADAMW = {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def random_tokens(config: dict[str, Any], samples: int, seq: int) -> Any:
    """int32 [samples, seq + 1], the same for every contender."""
    import numpy as np

    generator = np.random.default_rng(1)
    return generator.integers(0, config["vocab_size"], (samples, seq + 1)).astype(np.int32)


def ours(config: dict[str, Any], options: argparse.Namespace, folder: Path) -> Any:
    """This runner's own training step: `runner.loop.Trainer`, as a run builds it."""
    import numpy as np
    import torch
    import torch.distributed as dist

    from certify.runspec import DataSpec, ModelSpec, ParallelSpec, RunSpec, SpeedSpec, TrainingSpec
    from runner import faults, models, optim
    from runner.data.batches import Batches
    from runner.device import Device
    from runner.fast.path import FastPath
    from runner.loop import Trainer
    from runner.names import names_of
    from runner.parallel import fsdp, mesh, shards
    from runner.routing import RouterTap

    samples = options.batch * (options.warmup + options.steps + options.profile)
    np.save(folder / "samples.npy", random_tokens(config, samples, options.seq))
    speed = SpeedSpec(**dict(pair.split("=") for pair in options.switch))
    if options.chunk:
        speed = SpeedSpec(**{**vars(speed), "chunk_tokens": options.chunk})
    training = TrainingSpec(
        steps=10**6, global_batch=options.batch, micro_batch=options.batch, lr=ADAMW["lr"],
        min_lr=ADAMW["lr"], warmup_init_lr=ADAMW["lr"], warmup_steps=0, decay_steps=10**6,
        schedule="constant", weight_decay=0.1, beta1=0.9, beta2=0.95, eps=1e-8, clip_grad=1.0,
        seed=1,
    )  # fmt: skip
    spec = RunSpec(
        run_id="benchmark", campaign_id="benchmark", recipe_id="benchmark", role="candidate",
        backend="fsdp2", run_dir=str(folder), world_size=1, model=ModelSpec(config, "", ""),
        data=DataSpec(
            str(folder / "samples.npy"), samples, options.seq, config["vocab_size"], shuffle_seed=1
        ),
        parallel=ParallelSpec(param_dtype="bfloat16", reshard_after_forward=False),
        training=training, speed=speed, device=options.device, deterministic=False,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    device = Device(spec.device, 0)
    device.configure(spec.deterministic, spec.threads)
    store = dist.HashStore()
    dist.init_process_group(device.process_group_backend, store=store, rank=0, world_size=1)
    meshes = mesh.build(spec.parallel, device.name)
    fault = faults.of_spec(spec)
    model: Any = models.build(spec.model, config)
    names = names_of(model)
    tap = RouterTap(model, fault)
    fast = FastPath.of(spec, device.name)
    fast.prepare(model, tap)
    wrapped = fsdp.parallelise(model, spec.parallel, meshes, fast.holds_all_on_one_rank)
    models.materialise(model, device.torch_device)
    local = fast.with_masters(shards.collect(model, meshes, wrapped))
    torch.manual_seed(1)
    with torch.no_grad():
        for shard in local:
            if len(shard.shape) > 1:
                shard.local.normal_(std=config["initializer_range"])
            else:
                shard.local.fill_(1.0)
    fast.publish(local)
    fused = device.name == "cuda"
    plain = optim.build_optimizer(local, names, spec.training, fault, fused)
    optimizer = fast.optimizer(local, plain)
    batches = Batches(spec.data, training.global_batch)
    trainer = Trainer(spec, device, meshes, model, local, names, optimizer, batches, tap, fault,
                      fast)  # fmt: skip
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        return trainer.step(count).loss

    step.described = fast.effective()  # type: ignore[attr-defined]
    return step


def _stock(config: dict[str, Any], options: argparse.Namespace) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    with torch.device(options.device):
        return AutoModelForCausalLM.from_config(
            AutoConfig.for_model(**config), attn_implementation="sdpa", dtype=torch.float32
        )


def _batches(config: dict[str, Any], options: argparse.Namespace) -> Any:
    import torch

    samples = options.batch * (options.warmup + options.steps + options.profile)
    data = torch.from_numpy(random_tokens(config, samples, options.seq))
    while True:
        for rows in data.split(options.batch):
            yield rows.to(options.device, torch.long)


def plain(config: dict[str, Any], options: argparse.Namespace, folder: Path) -> Any:
    """Stock transformers, fully_shard with bfloat16 mixed precision, torch's fused AdamW."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    backend = "nccl" if options.device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    model = _stock(config, options)
    rules = {
        "mesh": init_device_mesh(options.device, (1,)),
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        "reshard_after_forward": False,
    }
    for layer in model.model.layers:
        if options.compile:
            layer.compile()
        fully_shard(layer, **rules)
    fully_shard(model, **rules)
    optimizer = torch.optim.AdamW(model.parameters(), fused=options.device == "cuda", **ADAMW)
    clip = torch.nn.utils.clip_grad_norm_
    return _stock_step(config, options, model, optimizer, lambda loss: loss.backward(), clip)


def _stock_step(
    config: dict[str, Any],
    options: argparse.Namespace,
    model: Any,
    optimizer: Any,
    backward: Callable[[Any], None],
    clip: Callable[[Any, float], Any],
) -> Any:
    """The step of a plain training loop, whoever wrapped the model."""
    import torch

    rows = _batches(config, options)

    def step() -> float:
        tokens = next(rows)
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), tokens[:, 1:].flatten()
        )
        backward(loss)
        clip(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def accelerate(config: dict[str, Any], options: argparse.Namespace, folder: Path) -> Any:
    """accelerate's FSDP2 plugin around stock transformers, eager or compiled as it does it."""
    import os

    import torch
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin

    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": "29571"}  # fmt: skip
    layer = "Qwen3MoeDecoderLayer" if "num_experts" in config else "Qwen3DecoderLayer"
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        reshard_after_forward=False,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=[layer],
    )
    accelerator = Accelerator(mixed_precision="bf16", fsdp_plugin=plugin)
    model = _stock(config, options)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **ADAMW)
    model, optimizer = accelerator.prepare(model, optimizer)
    how = (accelerator.backward, accelerator.clip_grad_norm_)
    return _stock_step(config, options, model, optimizer, *how)


CONTENDERS = {"ours": ours, "plain": plain, "accelerate": accelerate}
