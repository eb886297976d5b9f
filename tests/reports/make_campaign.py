"""Makes a plausible campaign folder out of nothing, through `certify.records`.

``python -m tests.reports.make_campaign OUT [KIND]`` with KIND one of ``KINDS``, to look at a page
without training anything. The numbers mean nothing.
"""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

from certify.records import (
    Collective,
    Comparison,
    Component,
    End,
    Environment,
    Event,
    Header,
    Step,
    Topology,
    Writer,
    batch_digest,
    rank_file,
    sample_digest,
)

KINDS = ("pass", "fail", "inconclusive", "interrupted")
STEPS, SAVE_STEP, RESUMED, CONTROL_STEPS = 200, 100, 50, 5
START_UNIX_S = 1_796_076_000.0
CONTROLS = ("optimizer-dropped", "data-cursor-dropped")
PHASES = {
    "prepare": (9.4, 9.1),
    "reference": (24.8, 24.1),
    "reference-again": (25.2, 24.0),
    "candidate": (31.7, 55.9),
    "candidate-again": (31.2, 55.4),
    "resume": (19.6, 33.8),
    "compare": (9.9, 9.7),
    "judge": (0.6, 0.6),
    "report": (0.0, 0.0),
}
RECIPE = "qwen3-235b-a22b-4k-fsdp2"
PACKAGES = {
    "torch": "2.13.0+cpu",
    "transformers": "5.24.0",
    "numpy": "2.4.6",
    "safetensors": "0.6.2",
    "tokenizers": "0.23.3",
}
SCALING = [
    ("model.hidden_size", 4096, 64, "fixed width"),
    ("model.num_hidden_layers", 94, 3, "few layers, more than two"),
    ("model.num_attention_heads", 64, 8, "heads x head_dim / hidden as published"),
    ("model.num_key_value_heads", 4, 2, "grouped-query stays grouped, multi-head stays so"),
    ("model.head_dim", 128, 16, "fixed"),
    ("model.moe_intermediate_size", 1536, 24, "ratio to hidden as published"),
    ("model.num_experts", 128, 8, "several experts on each expert-parallel rank"),
    ("model.num_experts_per_tok", 8, 2, "top-k stays above one where it was"),
    ("model.rope_theta", 1000000.0, 1000000.0, "kept"),
    ("model.norm_topk_prob", True, True, "kept"),
    ("model.router_aux_loss_coef", 0.001, 0.001, "kept"),
    ("model.tie_word_embeddings", False, False, "kept"),
    ("data.seq_length", 4096, 64, "fixed"),
    ("training.steps", 2000, 200, "fixed; enough for the loss-curve intervals"),
    ("training.global_batch", 1024, 8, "fixed"),
    ("training.lr", 1e-5, 1e-3, "published x hidden / scaled hidden, inside [floor, ceiling]"),
    ("training.min_lr", 1e-6, 1e-4, "published share of lr"),
    ("training.warmup_steps", None, 10, "published fraction, at least the scale's"),
    ("training.dtype", "bf16", "float32", "fp32 tier: differences are faults, not rounding"),
    ("parallel.fsdp_size", 256, 2, "all ranks, as published"),
    ("parallel.ep_size", 2, 2, "published, at most the ranks there are"),
]


def learning_rate(step: int) -> float:
    t, warmup, top, low = step - 1, 10, 1e-3, 1e-4
    if t <= warmup:
        return top / warmup + (top - top / warmup) * t / warmup
    share = (t - warmup) / (STEPS - warmup)
    return low + (top - low) * (1 + math.cos(math.pi * share)) / 2


class Trajectory:
    """Losses and gradient norms of the reference, and of runs that differ from it a little."""

    def __init__(self, seed: int = 7) -> None:
        chance = random.Random(seed)
        self.loss, self.norm = {}, {}
        for step in range(1, STEPS + 1):
            decay = 2.35 + 3.88 * math.exp(-step / 38) + 0.35 * math.exp(-step / 160)
            self.loss[step] = decay + chance.gauss(0, 0.035)
            self.norm[step] = 0.42 + 1.9 * math.exp(-step / 25) + abs(chance.gauss(0, 0.06))

    def near(self, seed: int, scale: float, drift: float = 0.0) -> Trajectory:
        chance, other = random.Random(seed), Trajectory()
        for step in self.loss:
            grown = scale * (0.2 + step / STEPS)
            other.loss[step] = self.loss[step] * (1 + chance.gauss(0, grown) + drift * step / STEPS)
            other.norm[step] = self.norm[step] * (1 + chance.gauss(0, grown * 4))
        return other


def write_steps(writer: Writer, path: Trajectory, steps: range, batch_shift: int = 0) -> None:
    for step in steps:
        digest = batch_digest([sample_digest(bytes([step % 251, i])) for i in range(8)])
        writer.write(
            Step(
                step=step,
                loss=path.loss[step],
                loss_hex=path.loss[step].hex(),
                grad_norm=path.norm[step],
                grad_norm_hex=path.norm[step].hex(),
                lr=learning_rate(step),
                tokens=512,
                supervised_tokens=512,
                tokens_sha256=digest,
                mask_sha256=digest,
                batch=step - 1 + batch_shift,
                step_time_s=0.1 + 0.001 * (step % 7),
                peak_bytes=410_000_000,
                aux_loss=3.0,
            )
        )


def describe(writer: Writer, side: str, rank: int, world: int, effective: dict[str, Any]) -> None:
    megatron = side == "reference"
    writer.write(
        Environment(
            python="3.11.7",
            platform="Linux-6.1.0-x86_64-with-glibc2.36",
            device="cpu",
            device_name="Intel(R) Xeon(R) Processor 测试",
            packages={**PACKAGES, **({"megatron-core": "0.16.1"} if megatron else {})},
            effective={
                "deterministic_algorithms": True,
                "num_threads": 1,
                "float32_matmul_precision": "highest",
            },
            variables={"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        )
    )
    groups = {"world": list(range(world))}
    if not megatron:
        groups |= {"fsdp": list(range(world)), "ep": list(range(world)), "ep_fsdp": [rank]}
    writer.write(Topology(world, groups, "gloo"))
    model = {"num_parameters": 333_760, "num_layers": 3, "hidden_size": 64, "aux_loss_coef": 0.001}
    optimizer = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.01, "clip_grad": 1.0}
    names = (
        ("GPTModel", "megatron.core.models.gpt.gpt_model", "models/gpt/gpt_model.py", "Adam")
        if megatron
        else (
            "Qwen3MoeForCausalLM",
            "transformers.models.qwen3_moe.modeling_qwen3_moe",
            "models/qwen3_moe/modeling_qwen3_moe.py",
            "AdamW",
        )
    )
    package, version = ("megatron-core", "0.16.1") if megatron else ("transformers", "5.24.0")
    writer.write(Component("model", *names[:3], package, version, "a1" * 32, model))
    writer.write(
        Component(
            "optimizer",
            names[3],
            "torch.optim",
            "optim/adamw.py",
            "torch",
            PACKAGES["torch"],
            "b2" * 32,
            {**optimizer, **effective},
        )
    )
    if not megatron:
        for op in ("all_reduce_sum", "reduce_scatter_sum", "all_gather", "all_to_all_uneven"):
            writer.write(Collective(op, "world", "float32", True))


def write_run(
    root: Path,
    run_id: str,
    role: str,
    path: Trajectory,
    steps: range,
    cut: bool = False,
    **effective: Any,
) -> None:
    world = 1 if role == "reference" else 2
    backend = "mcore" if role == "reference" else "fsdp2"
    for rank in range(world):
        header = Header(run_id, role, backend, rank, world, 4000 + rank, START_UNIX_S)
        writer = Writer(rank_file(root / "runs" / run_id, rank), header)
        describe(writer, role, rank, world, effective)
        if steps.start > 1:
            writer.write(Event("resumed", steps.start - 1, START_UNIX_S, {"from": "step-000100"}))
        write_steps(writer, path, steps)
        if not cut:
            writer.write(End("completed", len(steps), 25.0, 24.0))
        writer.close()
        if cut:
            with writer.path.open("a", encoding="utf-8") as file:
                file.write('{"kind": "step", "ste')


def write_controls(root: Path, run_id: str, path: Trajectory) -> None:
    for name in CONTROLS:
        header = Header(run_id, "candidate", "fsdp2", 0, 1, 4100, START_UNIX_S)
        writer = Writer(rank_file(root / "runs" / run_id, 0, f"control-{name}"), header)
        writer.write(Event("control_started", SAVE_STEP, START_UNIX_S, {"control": name}))
        off = path.near(len(name), 2e-3, drift=0.02)
        write_steps(writer, off, range(SAVE_STEP + 1, SAVE_STEP + 1 + CONTROL_STEPS))
        writer.close()


def write_comparison(root: Path, run_id: str) -> None:
    header = Header(run_id, "compare", "none", 0, 1, 4200, START_UNIX_S)
    writer = Writer(rank_file(root / "runs" / run_id, 0), header)
    writer.write(Comparison("forward-parity", {"positions": 20480}, {}, {"probe": "f6" * 32}))
    writer.write(End("completed", 0, 9.9, 9.7))
    writer.close()


def check(name: str, value: Any, limit: Any, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    decided = {"ok": True, "violated": False}.get(outcome)
    return {
        "name": name,
        "value": value,
        "limit": limit,
        "ok": decided,
        "outcome": outcome,
        **more,
    }


def gate(
    name: str, verdict: str = "PASS", required: bool = True, reason: str = "", **numbers: Any
) -> dict[str, Any]:
    empty = {"statistic": None, "low": None, "high": None, "margin": None, "n": None, "unit": ""}
    return {
        "gate": name,
        "verdict": verdict,
        "required": required,
        **empty,
        "reason": reason,
        "checks": [],
        **numbers,
    }


def gates(kind: str) -> list[dict[str, Any]]:
    curve = gate(
        "loss-curve",
        reason="no drift, no trend and no step outside the band in 200 steps",
        statistic=1.9e-8,
        low=-4.1e-8,
        high=8.0e-8,
        margin=0.002,
        n=200,
        unit="relative",
        checks=[
            check("drift", 1.9e-8, 0.002, low=-4.1e-8, high=8.0e-8, n=200, unit="relative"),
            check("trend", 2.6e-8, 0.002, low=-9.0e-8, high=1.4e-7, n=100, unit="relative"),
            check("band", 1.0, 0.99, n=200, detail="200 of 200 steps within 0.005"),
            check("band width", 0.005, None, "reported", unit="relative"),
            check("A/A sd", 0.0, None, "reported", n=200, unit="relative"),
            check("first steps", 3.1e-8, 1e-4, unit="relative"),
        ],
    )
    if kind == "fail":
        curve |= {"verdict": "FAIL", "statistic": 0.00348, "low": 0.00301, "high": 0.00395}
        curve["reason"] = "drift +0.00348 [+0.00301, +0.00395] lies outside the margin of 0.002"
        curve["checks"][0] |= {"value": 0.00348, "low": 0.00301, "high": 0.00395}
        curve["checks"][0] |= {"outcome": "violated", "ok": False}
    resume = gate(
        "resume",
        reason="bitwise tier: state, batches and 50 steps equal the uninterrupted run; "
        "every negative control is noticed",
        statistic=0,
        margin=0,
        n=50,
        unit="departures",
        checks=[check("trajectory", 0, 0, n=50), check("optimizer-dropped", "noticed", None)],
    )
    if kind == "inconclusive":
        resume |= {"verdict": "INCONCLUSIVE", "reason": "the run resume left no records"}
        resume |= {"statistic": None, "margin": None, "n": None}
    return [
        gate(
            "plan-followed",
            reason="weights, batches, learning rates and hyper-parameters as planned",
            statistic=0,
            margin=0,
            n=412,
            unit="departures",
        ),
        gate(
            "finite", reason="loss and gradient norm finite and above zero in 1,050 steps", n=1050
        ),
        gate(
            "forward-parity",
            reason="the candidate's logits are as close to the oracle as the reference's "
            "over 20,480 positions",
            statistic=2.96e-7,
            margin=8.1e-7,
            n=20480,
            unit="logit",
            checks=[
                check("loss", 1.2e-8, 1e-5, unit="relative"),
                check("logits max error", 1.9e-6, 4.4e-6, unit="logit"),
                check("logits rms error", 2.96e-7, 8.1e-7, unit="logit"),
                check("KL", 3.1e-13, 1e-6, unit="nats"),
                check("top-1 agreement", 1.0, 0.9999, n=20480),
                check("top-1 near-ties", 2, None, "reported", unit="count"),
            ],
        ),
        gate(
            "backward-parity",
            reason="gradients of step 1 agree in 6 classes of parameters",
            statistic=1.7e-6,
            margin=1e-4,
            unit="relative",
            checks=[
                check("attention", 9.1e-7, 1e-4, unit="relative"),
                check("embedding", 6.0e-7, 1e-4, unit="relative"),
                check("expert", 1.1e-6, 1e-4, unit="relative"),
                check("router", 1.7e-6, 1e-4, unit="relative"),
            ],
        ),
        gate(
            "first-update",
            reason="the first update points the same way in 6 classes of parameters",
            statistic=0.9999987,
            margin=0.999,
            unit="cosine",
        ),
        curve,
        resume,
        gate(
            "environment",
            "NOT REQUIRED",
            False,
            "reported at this scale: Python 3.11.7, torch 2.13.0+cpu",
        ),
        gate(
            "throughput",
            "NOT REQUIRED",
            False,
            "median step 0.103 s, 4,970 tokens/s over 180 steps",
            statistic=0.103,
            n=180,
            unit="s",
        ),
        gate("reshard", "NOT REQUIRED", False, "runs on request: certify run --phases reshard"),
    ]


def verdict_document(campaign_id: str, kind: str, recipe: str) -> dict[str, Any]:
    claim = "mechanics verified (tiny, cpu)" if kind == "pass" else None
    return {
        "schema": "certify.judge/1",
        "verdict": {"pass": "PASS", "fail": "FAIL", "inconclusive": "INCONCLUSIVE"}[kind],
        "gates": gates(kind),
        "scale": "tiny",
        "device": "cpu",
        "criteria": {"version": "v1", "sha256": "7d" * 32},
        "claim": claim,
        "campaign": campaign_id,
        "recipe": recipe,
        "attempts": {"candidate": 2} if kind == "inconclusive" else {},
    }


def campaign_document(campaign_id: str, kind: str, recipe: str) -> dict[str, Any]:
    phases = []
    for name, (wall_s, cpu_s) in PHASES.items():
        phase = {
            "name": name,
            "status": "completed",
            "run_id": f"{campaign_id}-{name}",
            "attempt": 1,
            "wall_s": wall_s,
            "cpu_s": cpu_s,
            "cached": False,
            "reason": "",
        }
        if name.startswith("reference") and kind == "fail":
            phase |= {"cached": True, "wall_s": 0.1, "cpu_s": 0.1}
        if kind == "interrupted" and name not in ("prepare", "reference", "reference-again"):
            phase |= {"status": "pending", "attempt": 0, "wall_s": 0.0, "cpu_s": 0.0}
            if name == "candidate":
                phase |= {"status": "interrupted", "attempt": 1, "reason": "interrupted"}
        if kind == "inconclusive" and name == "resume":
            phase |= {"status": "failed", "reason": "exit code 1: disk full"}
        if name == "report" and kind != "interrupted":
            phase["status"] = "running"
        phases.append(phase)
    return {
        "schema": "certify.campaign/1",
        "id": campaign_id,
        "recipe_id": recipe,
        "backend": "fsdp2",
        "scale": "tiny",
        "device": "cpu",
        "stage": "pretrain",
        "status": "interrupted" if kind == "interrupted" else "running",
        "key": "k",
        "created_unix_s": START_UNIX_S,
        "command": ["certify", "run", "qwen3-235b", "--backend", "fsdp2", "--data", "my data.txt"],
        "inject": "lr-off-by-one" if kind == "fail" else None,
        "options": {},
        "phases": phases,
    }


def plan_document(campaign_id: str, recipe: str) -> dict[str, Any]:
    trained = [name for name in PHASES if name not in ("prepare", "judge", "report")]
    return {
        "schema": "certify.campaign-plan/1",
        "campaign_id": campaign_id,
        "recipe_id": recipe,
        "scale": "tiny",
        "stage": "pretrain",
        "device": "cpu",
        "precision": "fp32",
        "moe": True,
        "criteria": {"version": "v1", "sha256": "7d" * 32},
        "runs": {name: f"{campaign_id}-{name}" for name in trained},
        "expected": {
            "weights_digest": "e5" * 32,
            "steps": [{"step": n, "lr": learning_rate(n)} for n in range(1, STEPS + 1)],
            "effective": {},
        },
        "resume": {"save_step": SAVE_STEP, "steps": RESUMED, "save_point": "epoch-boundary"},
    }


def recipe_document(recipe: str) -> dict[str, Any]:
    return {
        "schema": "certify.scaled-recipe/1",
        "id": recipe,
        "scale": "tiny",
        "source": {
            "repo": "Ascend/MindSpeed-LLM",
            "path": "examples/fsdp2/qwen3_moe/pretrain_qwen3_235b_4k_fsdp2_A3.sh",
            "commit": "c77308a14bfc",
        },
        "published": {"name": "Qwen3", "size": "235B-A22B", "product": "A3"},
        "scaling": [
            dict(zip(("key", "published", "scaled", "rule"), row, strict=True)) for row in SCALING
        ],
        "hf_config": {"model_type": "qwen3_moe"},
        "training": {"steps": STEPS},
        "parallel": {"fsdp_size": 2, "ep_size": 2},
    }


def write_records(root: Path, campaign_id: str, kind: str) -> None:
    reference = Trajectory()
    candidate = reference.near(11, 2.5e-7) if kind != "fail" else reference.near(11, 8e-4, 0.007)
    every = range(1, STEPS + 1)
    write_run(root, f"{campaign_id}-reference", "reference", reference, every)
    write_run(root, f"{campaign_id}-reference-again", "reference", reference, every)
    if kind == "interrupted":
        write_run(root, f"{campaign_id}-candidate", "candidate", candidate, range(1, 74), cut=True)
        return
    write_run(root, f"{campaign_id}-candidate", "candidate", candidate, every)
    write_run(root, f"{campaign_id}-candidate-again", "candidate", candidate, every)
    write_comparison(root, f"{campaign_id}-compare")
    if kind != "inconclusive":
        after = range(SAVE_STEP + 1, SAVE_STEP + RESUMED + 1)
        write_run(root, f"{campaign_id}-resume", "candidate", candidate, after)
        write_controls(root, f"{campaign_id}-resume", candidate)


def make_campaign(root: Path, kind: str = "pass", recipe: str = RECIPE) -> Path:
    """Write a campaign folder of one of `KINDS`; returns it."""
    campaign_id = f"{RECIPE}-20261130-220000-4f1c"
    documents = {
        "campaign.json": campaign_document(campaign_id, kind, recipe),
        "recipe.json": recipe_document(recipe),
        "plan.json": plan_document(campaign_id, recipe),
    }
    if kind != "interrupted":
        documents["verdict.json"] = verdict_document(campaign_id, kind, recipe)
    root.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (root / name).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    write_records(root, campaign_id, kind)
    return root


if __name__ == "__main__":
    print(make_campaign(Path(sys.argv[1]), *sys.argv[2:]))
