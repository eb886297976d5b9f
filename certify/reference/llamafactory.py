"""Runs LLaMA-Factory's own command line on a model and a data file, and reads what it recorded."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping  # noqa: TC003  (as Path)
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  (the words of the command are typed by the hints)
from typing import Any

from certify.campaign.files import read_json, write_json
from certify.errors import InfrastructureError, UsageError
from certify.reference.environments import clean_environment
from certify.reference.foreign import LoggedStep, Trajectory

STATE, OUTPUT = "trainer_state.json", "output"
FORMATS = ("alpaca", "sharegpt")
DATASET = "data"
CONFIGURATION = "train.yaml"
PATIENCE_S = 7200


@dataclass(frozen=True)
class Tuning:
    """One full fine-tuning on a CPU in float32. model: a Hugging Face folder with tokenizer;
    data: a JSON file; columns: its keys, as an entry of ``dataset_info.json`` names them (empty:
    LLaMA-Factory's own); micro_batch: samples of a rank; cutoff: longest sample in tokens."""

    model: Path
    data: Path
    formatting: str = "alpaca"
    columns: Mapping[str, str] = field(default_factory=dict)
    template: str = "qwen3"
    cutoff: int = 2048
    packing: bool = False
    neat_packing: bool = False
    mask_history: bool = False
    enable_thinking: bool = True
    epochs: float = 1.0
    micro_batch: int = 1
    accumulation: int = 1
    lr: float = 1e-5
    schedule: str = "cosine"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    clip_grad: float = 1.0
    seed: int = 42
    world_size: int = 1


def configuration(tuning: Tuning, folder: Path) -> dict[str, Any]:
    """The arguments of ``llamafactory-cli train``.

    Raises UsageError for a data format that LLaMA-Factory does not have.
    """
    if tuning.formatting not in FORMATS:
        raise UsageError(
            f"data format {tuning.formatting!r}", where="--format", expected=" or ".join(FORMATS)
        )
    return {
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "full",
        "model_name_or_path": str(tuning.model),
        "dataset_dir": str(folder / "dataset"),
        "dataset": DATASET,
        "template": tuning.template,
        "enable_thinking": tuning.enable_thinking,
        "mask_history": tuning.mask_history,
        "cutoff_len": tuning.cutoff,
        "packing": tuning.packing,
        "neat_packing": tuning.neat_packing,
        "output_dir": str(folder / OUTPUT),
        "overwrite_output_dir": True,
        "overwrite_cache": True,
        "preprocessing_num_workers": 1,
        "dataloader_num_workers": 0,
        "num_train_epochs": tuning.epochs,
        "per_device_train_batch_size": tuning.micro_batch,
        "gradient_accumulation_steps": tuning.accumulation,
        "learning_rate": tuning.lr,
        "lr_scheduler_type": tuning.schedule,
        "warmup_steps": tuning.warmup_steps,
        "weight_decay": tuning.weight_decay,
        "max_grad_norm": tuning.clip_grad,
        "seed": tuning.seed,
        "optim": "adamw_torch",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "plot_loss": False,
        "flash_attn": "disabled",
        "disable_gradient_checkpointing": True,
        "use_cpu": True,
        "bf16": False,
        "fp16": False,
        # Of one process, transformers takes it for a launch under torchrun.
        **({"ddp_backend": "gloo"} if tuning.world_size > 1 else {}),
    }


def train(tuning: Tuning, python: Path, folder: Path) -> Trajectory:
    """Train in a folder of its own and return the trajectory.

    python: the interpreter of its environment. Raises UsageError for a model or data that is not
    there, InfrastructureError with the last line it printed when it fails.
    """
    for option, path in (("--model", tuning.model), ("--data", tuning.data)):
        if not path.exists():
            raise UsageError("no such file or folder", where=f"{option} {path}")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("the folder is not empty", where=str(folder), hint="name another --out")
    body = configuration(tuning, folder)
    entry = {"file_name": str(tuning.data.absolute()), "formatting": tuning.formatting}
    info = {**entry, "columns": dict(tuning.columns)} if tuning.columns else entry
    write_json(folder / "dataset" / "dataset_info.json", {DATASET: info})
    # JSON is YAML: LLaMA-Factory 0.9.5 fails on any file that is named .json.
    write_json(folder / CONFIGURATION, body)
    _launch(tuning, python, folder)
    return read_state(folder / OUTPUT / STATE)


def _launch(tuning: Tuning, python: Path, folder: Path) -> None:
    log = folder / "output.log"
    several = {"FORCE_TORCHRUN": "1", "NPROC_PER_NODE": str(tuning.world_size)}
    environment = {
        **clean_environment(),
        # torchrun is looked up on PATH; nothing may reach for a network.
        "PATH": f"{python.parent}:{clean_environment().get('PATH', '')}",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / "cache"),
        "DISABLE_VERSION_CHECK": "0",
        "OMP_NUM_THREADS": "1",
        **(several if tuning.world_size > 1 else {}),
    }
    command = (str(python), "-m", "llamafactory.cli", "train", str(folder / CONFIGURATION))
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_S,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(f"no end within {PATIENCE_S} s", where=str(log)) from None
    except OSError as error:
        raise UsageError(
            f"cannot start LLaMA-Factory: {error.strerror}",
            where=str(python),
            hint="certify reference setup llamafactory",
        ) from None
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise InfrastructureError(
            f"LLaMA-Factory ended with {done.returncode}: {lines[-1] if lines else 'no output'}",
            where=str(log),
        )


def read_state(path: Path) -> Trajectory:
    """The steps of a ``trainer_state.json``, as Hugging Face's Trainer writes it.

    Its numbers are those of the steps themselves, not rounded. Raises UsageError for a file that
    is none, and for a step without loss.
    """
    body = read_json(path, "the trainer's state")
    history = body.get("log_history") if isinstance(body, dict) else None
    if not isinstance(history, list):
        raise UsageError("no log_history", where=str(path), expected="a trainer_state.json")
    steps: dict[int, LoggedStep] = {}
    for entry in history:
        # The last entry sums up the run and has no step's loss.
        if not isinstance(entry, dict) or "loss" not in entry:
            continue
        try:
            number = int(entry["step"])
            steps[number] = LoggedStep(
                number,
                loss=float(entry["loss"]),
                grad_norm=_number(entry.get("grad_norm")),
                lr=_number(entry.get("learning_rate")),
            )
        except (KeyError, TypeError, ValueError):
            raise UsageError(
                f"an entry without step or loss: {json.dumps(entry)[:120]}", where=str(path)
            ) from None
    if not steps:
        raise UsageError("no step has a loss", where=str(path), expected="logging_steps 1")
    planned = body.get("max_steps")
    last = planned if isinstance(planned, int) else max(steps)
    return Trajectory(tuple(steps[n] for n in sorted(steps)), last, ())


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
