"""Rules of learning rate, batch, schedule and checkpoints (Megatron-style scripts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.recipes.lint.context import Context, Hit

if TYPE_CHECKING:
    from collections.abc import Iterator


def rates(c: Context) -> Iterator[Hit]:
    """T01, T02, T14, T16: learning rate and moments."""
    lr, floor, schedule = c.get("training.lr"), c.get("training.min_lr"), c.get("training.schedule")
    if lr is not None and floor is not None and floor > lr:
        yield Hit("T01", f"lr {lr}, min_lr {floor}", "training.min_lr")
    if floor is None and schedule not in (None, "constant", "none"):
        yield Hit("T02", f"schedule {schedule}", "training.schedule")
    if schedule is None:
        yield Hit("T14", "", "training.lr")
    if c.get("training.beta2") is None:
        yield Hit("T16", "", "training.beta1")


def steps(c: Context) -> Iterator[Hit]:
    """T03, T04, T07, T09: warm-up, decay and checkpoints against the steps."""
    total, decay = c.get("training.steps"), c.get("training.lr_decay_iters")
    warmup, fraction = c.get("training.warmup_iters"), c.get("training.warmup_fraction")
    if warmup and fraction is not None:
        yield Hit("T03", f"{warmup} steps and {fraction}", "training.warmup_iters")
    if fraction is not None and fraction >= 1:
        yield Hit("T04", f"fraction {fraction}", "training.warmup_fraction")
    ends = min(value for value in (total, decay, 1 << 62) if value)
    if warmup and warmup >= ends < 1 << 62:
        yield Hit("T04", f"{warmup} steps of {ends}", "training.warmup_iters")
    interval = c.get("training.save_interval")
    if interval and total and interval > total:
        yield Hit("T07", f"save interval {interval}, {total} steps", "training.save_interval")
    if decay and total and decay != total:
        yield Hit("T09", f"{decay} against {total}", "training.lr_decay_iters")


def rest(c: Context) -> Iterator[Hit]:
    """T05, T06, T08, T11, T12, T15."""
    seq, positions = c.get("training.seq_length"), c.get("model.max_position_embeddings")
    if seq and positions and positions < seq:
        found = f"{positions} positions, sequence {seq}"
        yield Hit("T05", found, "model.max_position_embeddings")
    if c.get("training.dtype") == "bf16" and c.get("training.initial_loss_scale") is not None:
        found = f"loss scale {c.get('training.initial_loss_scale')}"
        yield Hit("T06", found, "training.initial_loss_scale")
    if c.get("training.seed") is None:
        yield Hit("T08", "", "training.lr")
    if c.get("training.init_std") is None:
        yield Hit("T15", "", "model.hidden")
    yield from _usual(c)
    split, validation = c.get("data.split"), c.get("training.eval_iters")
    parts = [part.strip() for part in split.split(",")] if split else []
    if validation and len(parts) > 1 and parts[1] in ("0", "0.0"):
        found = f"{validation} validation steps, split {split}"
        yield Hit("T12", found, "training.eval_iters")


def _usual(c: Context) -> Iterator[Hit]:
    decay, clip, beta2 = (c.get(f"training.{k}") for k in ("weight_decay", "clip_grad", "beta2"))
    if decay is not None and decay > 0.1:
        yield Hit("T11", f"weight decay {decay}", "training.weight_decay")
    if clip is not None and not 0 < clip <= 1:
        yield Hit("T11", f"clip {clip}", "training.clip_grad")
    if beta2 is not None and beta2 < 0.9:
        yield Hit("T11", f"beta2 {beta2}", "training.beta2")


def stage(c: Context) -> Iterator[Hit]:
    """T10: a fine-tuning script that says neither --finetune nor a stage."""
    if c.raw["stage"] == "pretrain" or c.imported is None:
        return
    if c.fsdp2:
        if c.get("training.stage") is None:
            yield Hit("T10", "training.stage not set: sft", "training.lr")
    elif not (c.has("finetune") or c.has("stage")):
        yield Hit("T10", f"stage {c.raw['stage']} by its name", "training.lr")


CHECKS = (rates, steps, rest)
