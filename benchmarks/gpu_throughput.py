"""Training throughput on one accelerator: this runner beside plain transformers and accelerate.

    python benchmarks/gpu_throughput.py --out results.json [--models dense,moe] [--steps 30]

Each contender trains the same randomly initialised model on the same random tokens in a process
of its own: `--warmup` steps are dropped, `--steps` whole steps are timed between device
synchronisations. `--abba MODEL` runs ours and compiled plain transformers in the order A B B A.
FLOPs per token follow the formula causal-active-v1 (6 x active weights + 6 x L x H x (d_qk + d_v)
x (S + 1) / 2); MFU is against `--peak` TFLOP/s. A contender that is not installed, or fails, says
so in its place.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

QWEN3 = {
    "hidden_size": 2048,
    "head_dim": 128,
    "vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "max_position_embeddings": 40960,
    "attention_bias": False,
    "initializer_range": 0.02,
}
# The dimensions of Qwen3-1.7B, and of Qwen3-30B-A3B cut to six layers.
MODELS: dict[str, dict[str, Any]] = {
    "dense": QWEN3
    | {
        "model_type": "qwen3",
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "intermediate_size": 6144,
        "tie_word_embeddings": True,
    },
    "moe": QWEN3
    | {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 6,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "tie_word_embeddings": False,
    },
}
MICRO_BATCH = {"dense": 8, "moe": 4}
PACKAGES = ("torch", "transformers", "accelerate", "torchtitan", "triton")
ADAMW = {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def active_flops_per_token(config: dict[str, Any], seq: int) -> float:
    """causal-active-v1 of a Qwen3 configuration, forward and backward."""
    h, heads, d = config["hidden_size"], config["num_attention_heads"], config["head_dim"]
    kv, layers = config["num_key_value_heads"], config["num_hidden_layers"]
    attention = h * d * (heads + 2 * kv) + heads * d * h
    if "num_experts" in config:
        mlp = h * config["num_experts"]
        mlp += config["num_experts_per_tok"] * 3 * h * config["moe_intermediate_size"]
    else:
        mlp = 3 * h * config["intermediate_size"]
    active = layers * (attention + mlp) + h * config["vocab_size"]
    return 6.0 * active + 6.0 * layers * heads * 2 * d * (seq + 1) / 2


def random_tokens(config: dict[str, Any], samples: int, seq: int) -> Any:
    """int32 [samples, seq + 1], the same for every contender."""
    import numpy as np

    generator = np.random.default_rng(1)
    return generator.integers(0, config["vocab_size"], (samples, seq + 1)).astype(np.int32)


# ---------------------------------------------------------------------------------------------
# Contenders. Each makes a function that trains one step and returns the loss.


class _Dimensions:
    """In place of published names, which only evidence and weight decay ask for: no weights are
    read here, and every matrix of these models is one in memory too."""

    def published_dims(self, name: str, dims: int) -> int:
        return dims


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
    names: Any = _Dimensions()
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
    return _plain_step(config, options, model)


def _plain_step(config: dict[str, Any], options: argparse.Namespace, model: Any) -> Any:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), fused=options.device == "cuda", **ADAMW)
    rows = _batches(config, options)

    def step() -> float:
        tokens = next(rows)
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), tokens[:, 1:].flatten()
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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
    rows = _batches(config, options)

    def step() -> float:
        tokens = next(rows)
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), tokens[:, 1:].flatten()
        )
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return step


def torchtitan(config: dict[str, Any], options: argparse.Namespace, folder: Path) -> Any:
    """torchtitan's own trainer has another model definition: only whether it is there is said."""
    import torchtitan  # noqa: F401

    raise NotImplementedError("torchtitan is installed, but no configuration of it is kept here")


CONTENDERS = {"ours": ours, "plain": plain, "accelerate": accelerate, "torchtitan": torchtitan}


# ---------------------------------------------------------------------------------------------
# Measuring.


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Time one contender in this process."""
    import torch

    config = MODELS[options.model]
    if options.layers:
        config = config | {"num_hidden_layers": options.layers}
    on_cuda = options.device == "cuda"
    with tempfile.TemporaryDirectory() as folder:
        step = CONTENDERS[options.contender](config, options, Path(folder))
        started = time.perf_counter()
        losses = [step() for _ in range(options.warmup)]
        if on_cuda:
            torch.cuda.synchronize()
        warmup_s = time.perf_counter() - started
        graphs = _graphs()
        if on_cuda:
            torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(options.steps):
            begin = time.perf_counter()
            losses.append(step())
            if on_cuda:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        recompiled = _graphs() - graphs
        if options.profile:
            _profile(step, options)
    tokens = options.batch * options.seq
    median = statistics.median(times)
    flops = active_flops_per_token(config, options.seq)
    return {
        "contender": options.contender + ("-compiled" if options.compile else ""),
        "model": options.model,
        "micro_batch": options.batch,
        "tokens_per_step": tokens,
        "tokens_per_s": round(tokens / median),
        "mfu": round(flops * tokens / median / (options.peak * 1e12), 4),
        "step_s": {"median": median, "min": min(times), "max": max(times), "n": len(times)},
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1) if on_cuda else None,
        "warmup_s": round(warmup_s, 1),
        "graphs_after_warmup": recompiled,
        "loss": [losses[0], losses[-1]],
        "described": getattr(step, "described", None),
    }


def _graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _profile(step: Any, options: argparse.Namespace) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        for _ in range(options.profile):
            step()
    table = found.key_averages().table(
        sort_by="self_cuda_time_total", row_limit=45, max_name_column_width=90
    )
    Path(options.profile_to).write_text(table)


def versions() -> dict[str, str]:
    """Installed versions of what takes part; a missing one is said."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def in_process(options: argparse.Namespace, contender: str, model: str, *extra: str) -> Any:
    """One measurement in a process of its own."""
    command = [
        sys.executable, __file__, "--contender", contender, "--model", model,
        "--batch", str(options.batch or MICRO_BATCH[model]), "--seq", str(options.seq),
        "--steps", str(options.steps), "--warmup", str(options.warmup),
        "--peak", str(options.peak), "--device", options.device, "--layers", str(options.layers),
        *extra,
    ]  # fmt: skip
    name = contender + ("-compiled" if "--compile" in extra else "")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"contender": name, "model": model, "failed": f"no result in {options.timeout} s"}
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"contender": name, "model": model, "failed": " | ".join(lines[-4:])[-600:]}
    return json.loads(done.stdout.splitlines()[-1])


def run_all(options: argparse.Namespace) -> list[Any]:
    """Every contender on every model, then the ABBA form."""
    switches = [part for pair in options.switch for part in ("--switch", pair)]
    plan: list[tuple[str, str, list[str]]] = []
    for model in options.models.split(","):
        for entry in options.contenders.split(","):
            contender, _, how = entry.partition("-")
            extra = ["--compile"] if how == "compiled" else []
            plan.append((contender, model, extra + (switches if contender == "ours" else [])))
    if options.abba:
        a, b = ("ours", options.abba, switches), ("plain", options.abba, ["--compile"])
        plan += [a, b, b, a]
    found = []
    for contender, model, extra in plan:
        found.append(in_process(options, contender, model, *extra))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
        if options.out:
            document = {"versions": versions(), "seq": options.seq, "results": found}
            Path(options.out).write_text(json.dumps(document, indent=1) + "\n")
    return found


def main() -> int:
    """Measure one contender (`--contender`), or start them all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--contender", choices=sorted(CONTENDERS))
    parser.add_argument("--contenders", default="ours,plain,plain-compiled,accelerate,torchtitan")
    parser.add_argument("--model", default="dense", choices=sorted(MODELS))
    parser.add_argument("--models", default="dense,moe")
    parser.add_argument("--abba", default="", choices=["", *sorted(MODELS)])
    parser.add_argument("--batch", type=int, default=0, help="samples per step and micro-batch")
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=0, help="other than the model's own")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--peak", type=float, default=989.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--switch", action="append", default=[], metavar="NAME=on|off|auto")
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--profile", type=int, default=0, help="steps to profile afterwards")
    parser.add_argument("--profile-to", default="profile.txt")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one process")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    if options.contender:
        options.batch = options.batch or MICRO_BATCH[options.model]
        print(json.dumps(measure(options)))
    else:
        run_all(options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
