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

from benchmarks.gpu_contenders import CONTENDERS
from certify.plan import build
from certify.plan.facts import of_config
from certify.plan.flops import flops_per_token

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
PACKAGES = ("torch", "transformers", "accelerate", "triton")


def active_flops_per_token(config: dict[str, Any], seq: int) -> float:
    """causal-active-v1, forward and backward, as the plan counts it."""
    return flops_per_token(build.architecture(of_config(config)), seq)


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
    parser.add_argument("--contenders", default="ours,plain,plain-compiled,accelerate")
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
