"""Tiny published checkpoints and run specs, and runs of the backend in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from certify import records
from certify.runspec import (
    DataSpec,
    EvidenceSpec,
    ModelSpec,
    ParallelSpec,
    RunSpec,
    TrainingSpec,
    write_spec,
)
from runner.compat import attention_of

ROOT = Path(__file__).resolve().parents[3]
SEQ, BATCH, SAMPLES, VOCAB = 32, 4, 40, 256


def hf_config(model_type: str, **changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "model_type": model_type,
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "intermediate_size": 96,
        "max_position_embeddings": SEQ,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
    }
    if model_type in ("qwen3", "qwen3_moe"):
        config["head_dim"] = 16
    if model_type == "qwen3_moe":
        config |= {
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    return {**config, **changes}


def stock_model(config: dict[str, Any], folder: Path | None = None) -> Any:
    """Stock transformers model: from a checkpoint folder, or with weights drawn here, in which
    no tensor is all ones or zeros, so that none can be left out unnoticed."""
    body = {key: value for key, value in config.items() if key != "model_type"}
    known = AutoConfig.for_model(config["model_type"], **body)
    torch.manual_seed(7)
    attention = attention_of(AutoModelForCausalLM._model_mapping[type(known)], "sdpa")
    model = AutoModelForCausalLM.from_config(
        known, dtype=torch.float32, attn_implementation=attention
    )
    if folder is None:
        with torch.no_grad():
            published = set(model.state_dict())
            for name, parameter in (*model.named_parameters(), *model.named_buffers()):
                if name not in published:
                    continue
                draw = torch.randn_like(parameter)
                parameter.copy_(1 + 0.2 * draw if "norm" in name else 0.1 * draw)
        return model
    return type(model).from_pretrained(str(folder), config=known, dtype=torch.float32)


@dataclass
class Run:
    """A finished process. file: its record file."""

    spec: RunSpec
    code: int
    stderr: str

    @property
    def file(self) -> records.RecordFile:
        return records.read_file(records.rank_file(Path(self.spec.run_dir), 0))


def make_spec(
    folder: Path, config: dict[str, Any], steps: int, *, mask: bool = False, **training: Any
) -> RunSpec:
    """Draw a checkpoint and data into a folder and describe a run on them."""
    folder.mkdir(parents=True, exist_ok=True)
    stock_model(config).save_pretrained(str(folder / "weights"))
    tensors = load_file(folder / "weights" / "model.safetensors")
    digests = {
        name: records.tensor_digest("float32", tensor.shape, tensor.numpy().tobytes())
        for name, tensor in tensors.items()
    }
    rng = np.random.default_rng(3)
    walk = rng.integers(1, 5, size=(SAMPLES, SEQ + 1)).cumsum(1) + rng.integers(
        0, VOCAB, (SAMPLES, 1)
    )
    np.save(folder / "samples.npy", (walk % VOCAB).astype(np.int32))
    np.save(folder / "probe.npy", (walk[:6] % VOCAB).astype(np.int32))
    kept = (rng.random((SAMPLES, SEQ)) < 0.6).astype(np.uint8)
    np.save(folder / "mask.npy", kept)
    settings = {
        "steps": steps,
        "global_batch": BATCH,
        "micro_batch": BATCH,
        "lr": 3e-3,
        "min_lr": 3e-4,
        "warmup_init_lr": 1e-5,
        "warmup_steps": 4,
        "decay_steps": 24,
        "schedule": "cosine",
        "weight_decay": 0.1,
        "beta1": 0.9,
        "beta2": 0.95,
        "eps": 1e-8,
        "clip_grad": 1.0,
        "seed": 1,
        **training,
    }
    mask_file = str(folder / "mask.npy") if mask else None
    return RunSpec(
        run_id="run",
        campaign_id="campaign",
        recipe_id="recipe",
        role="reference",
        backend="mcore",
        run_dir=str(folder / "run"),
        world_size=1,
        model=ModelSpec(config, str(folder / "weights"), records.root_digest(digests)),
        data=DataSpec(str(folder / "samples.npy"), SAMPLES, SEQ, VOCAB, 5, mask_file),
        parallel=ParallelSpec(),
        training=TrainingSpec(**settings),
        evidence=EvidenceSpec(
            probe_file=str(folder / "probe.npy"), gradients=True, first_update=True, routing=True
        ),
    )


def start(spec: RunSpec) -> Run:
    """`python -m runner` on a spec, one thread a rank; the error output is rank 0's."""
    return start_all([spec])[0]


def start_all(specs: list[RunSpec], module: str | None = None) -> list[Run]:
    """Specs of one world size, one after another in the same processes: megatron is imported
    once. The first that fails ends the rest."""
    files = []
    for spec in specs:
        files.append(Path(spec.run_dir).parent / f"{Path(spec.run_dir).name}.json")
        write_spec(spec, files[-1])
    ranks, folder = specs[0].world_size, files[0].parent
    several = len(specs) > 1
    module = module or ("tests.runner.several" if several else "runner")
    command = [sys.executable, "-m", module, *map(str, files)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if ranks > 1:
        environment |= {"CERTIFY_STORE": str(folder / f"{files[0].stem}-store")}
        environment |= {"GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": str(ranks)}
    outputs = [(folder / f"{files[0].stem}-{rank}.err").open("w+") for rank in range(ranks)]
    processes = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment | ({"RANK": str(rank)} if ranks > 1 else {}),
            stdout=subprocess.DEVNULL,
            stderr=output,
        )
        for rank, output in enumerate(outputs)
    ]
    codes = [process.wait(timeout=600) for process in processes]
    errors = []
    for output in outputs:
        output.seek(0)
        errors.append(output.read())
        output.close()
    return [Run(spec, max(codes), "".join(errors)) for spec in specs]


def again(run: Run, name: str, **changes: Any) -> Run:
    """The same run with a changed spec, in a folder of its own."""
    return start(changed(run.spec, name, **changes))


def changed(spec: RunSpec, name: str, **changes: Any) -> RunSpec:
    """A spec with changes, for a folder of its own beside the first."""
    return replace(spec, run_dir=str(Path(spec.run_dir).parent / name), **changes)


def with_layout(spec: RunSpec, name: str, world_size: int, **parallel: Any) -> RunSpec:
    """The same run under another layout."""
    layout = replace(spec.parallel, **parallel)
    return changed(spec, name, world_size=world_size, parallel=layout)
