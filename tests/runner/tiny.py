"""Tiny prepared runs for the runner's tests: a stock model's weights and random samples."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from certify.records import read_run
from certify.runspec import (
    DataSpec,
    ModelSpec,
    ParallelSpec,
    RunSpec,
    TrainingSpec,
    read_spec,
    write_spec,
)

ROOT = Path(__file__).parents[2]

HF_CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "max_position_embeddings": 64,
    "rope_theta": 1000000.0,
    "initializer_range": 0.2,
    "router_aux_loss_coef": 0.001,
    "tie_word_embeddings": False,
}
TRAINING = TrainingSpec(
    steps=10,
    global_batch=8,
    micro_batch=4,
    lr=3e-3,
    min_lr=3e-4,
    warmup_init_lr=1e-4,
    warmup_steps=3,
    decay_steps=10,
    schedule="cosine",
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    eps=1e-8,
    clip_grad=1.0,
    seed=7,
    aux_loss_coef=0.01,
)
SEQ_LENGTH = 16
N_SAMPLES = 44  # not a multiple of the batch: an epoch ends inside one


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A folder with weights, samples and a probe. spec(): a run over them."""

    folder: Path
    hf_config: dict[str, Any]
    weights_digest: str

    def spec(self, name: str, ranks: int = 2, ep: int = 2, **changes: Any) -> RunSpec:
        """changes: fields of the RunSpec."""
        run_id = changes.pop("run_id", name)
        data = DataSpec(
            samples_file=str(self.folder / "samples.npy"),
            n_samples=N_SAMPLES,
            seq_length=SEQ_LENGTH,
            vocab_size=self.hf_config["vocab_size"],
            shuffle_seed=11,
            mask_file=str(self.folder / "mask.npy"),
        )
        parallel = ParallelSpec(
            fsdp_size=ranks,
            ep_size=ep,
            ep_fsdp_size=1,
            ignored_modules=("model.layers.{*}.mlp.router",),
        )
        spec = RunSpec(
            run_id=run_id,
            campaign_id="test",
            recipe_id="test",
            role="candidate",
            backend="fsdp2",
            run_dir=str(self.folder / "runs" / name),
            world_size=ranks,
            model=ModelSpec(self.hf_config, str(self.folder / "weights"), self.weights_digest),
            data=data,
            parallel=parallel,
            training=TRAINING,
        )
        return dataclasses.replace(spec, **changes)


def write_weights(hf_config: dict[str, Any], folder: Path, seed: int = 3) -> str:
    """Random weights of the stock class under published names; returns weights_digest."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM

    from certify.records import root_digest
    from runner.digests import digest_of
    from runner.names import names_of

    arguments = {k: v for k, v in hf_config.items() if k != "model_type"}
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(hf_config["model_type"], **arguments)
    )
    names = names_of(model)
    tensors = {
        published: part.detach().clone().contiguous()
        for name, value in model.named_parameters()
        for published, part in names.to_published(name, value)
    }
    folder.mkdir(parents=True)
    save_file(tensors, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(hf_config))
    return root_digest({name: digest_of(t) for name, t in tensors.items()})


def prepare(folder: Path, **changes: Any) -> Prepared:
    """Write weights, samples, mask and probe. changes: keys of the model's configuration."""
    import numpy as np

    config = {**HF_CONFIG, **changes}
    digest = write_weights(config, folder / "weights")
    generator = np.random.default_rng(5)
    vocabulary = config["vocab_size"]

    def samples(n: int) -> Any:
        return generator.integers(0, vocabulary, (n, SEQ_LENGTH + 1)).astype(np.int32)

    mask = (generator.random((N_SAMPLES, SEQ_LENGTH)) < 0.8).astype(np.uint8)
    # Uneven token counts: some samples have nearly none in the loss.
    mask[::5, 1:] = 0
    np.save(folder / "samples.npy", samples(N_SAMPLES))
    np.save(folder / "mask.npy", mask)
    np.save(folder / "probe.npy", samples(7))
    return Prepared(folder, config, digest)


def environment(**extra: str) -> dict[str, str]:
    """The environment that the launcher gives a runner."""
    fixed = {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": str(ROOT),
        "CERTIFY_PARENT_PID": str(os.getpid()),
    }
    return {**os.environ, **fixed, **extra}


def launch(*specs: RunSpec, ranks: int = 2, **extra: str) -> subprocess.CompletedProcess[str]:
    """Train specs one after another in the same processes, as `python -m runner` would each.

    One launch for several runs: most of the time of a tiny run is starting processes.
    """
    paths = []
    for spec in specs:
        path = Path(spec.run_dir) / "spec.json"
        write_spec(spec, path)
        assert read_spec(path) == spec
        paths.append(str(path))
    module = ["-m", "runner"] if len(paths) == 1 else ["-m", "tests.runner.several"]
    command = [sys.executable, *module, *paths]
    if ranks > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
        command[1:1] = [*torchrun, f"--nproc-per-node={ranks}"]
    return subprocess.run(
        command, env=environment(**extra), cwd=ROOT, capture_output=True, text=True, timeout=150
    )


def trained(*specs: RunSpec, ranks: int = 2, **extra: str) -> None:
    """`launch`, and fail with the output unless it succeeded."""
    done = launch(*specs, ranks=ranks, **extra)
    assert done.returncode == 0, done.stdout + done.stderr


def steps_of(spec: RunSpec, rank: int = 0, stream: str = "rank") -> dict[int, Any]:
    """step -> record of one rank."""
    return read_run(Path(spec.run_dir), stream)[rank].steps()
