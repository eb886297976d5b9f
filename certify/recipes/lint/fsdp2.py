"""Rules of the FSDP2 backend's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.recipes.lint.context import Context, Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

# Model ids of the backend whose layers hold experts, and those with linear attention or SSM.
_EXPERTS = ("gpt_oss", "qwen3_moe", "qwen3_next", "step35", "minimax_m27", "longcat_flash_ngram",
            "glm52", "deepseek_v4")  # fmt: skip
_LINEAR = ("qwen3_next", "mamba3")
_LINEAR_OPTIONS = ("use_triton_gdn", "use_flash_gdn", "use_triton_rmsnormgated")
# A run of that few epochs is taken to be bounded by them, not by max_steps.
_FEW_EPOCHS = 10
_COUNTED = ("fsdp_size", "ep", "ep_fsdp_size", "cp", "tp")


def sizes(c: Context) -> Iterator[Hit]:
    """F01 to F04, F07, F10, F20: do the sizes multiply to the world?

    A YAML alone states no world size: fsdp_size, which has to be it, stands for it.
    """
    for key, value in c.below_one(tuple(f"parallel.{name}" for name in _COUNTED)):
        yield Hit("F20", str(value), key)
    world, fsdp = c.get("cluster.world_size"), c.get("parallel.fsdp_size")
    world = world or max(fsdp or 0, 0)
    ep, ep_fsdp = c.number("parallel.ep"), c.number("parallel.ep_fsdp_size")
    if world and fsdp is not None and fsdp != world:
        yield Hit("F01", f"fsdp_size {fsdp}, world {world}", "parallel.fsdp_size")
    readable = c.get("source.yaml_missing") is None or c.get("source.companion_yaml") is not None
    if world and fsdp is None and world > 1 and readable:
        yield Hit("F01", f"fsdp_size not set (1), world {world}", "parallel.fsdp_size")
    if c.number("parallel.tp") > 1:
        yield Hit("F02", f"tp_size {c.get('parallel.tp')}", "parallel.tp")
    if world and world % (ep * ep_fsdp):
        found = f"world {world}, ep_size {ep} x ep_fsdp_size {ep_fsdp}"
        yield Hit("F03", found, "parallel.ep")
    elif world and ep > 1 and ep * ep_fsdp < world:
        yield Hit("F04", f"{world // (ep * ep_fsdp)} copies", "parallel.ep")
    if ep == 1 and ep_fsdp != 1:
        yield Hit("F10", f"ep_fsdp_size {ep_fsdp}", "parallel.ep_fsdp_size")
    cp, seq = c.number("parallel.cp"), c.get("training.seq_length")
    if cp > 1 and fsdp and fsdp % cp:
        yield Hit("F07", f"fsdp_size {fsdp}, cp_size {cp}", "parallel.cp")
    parts = 2 * cp if c.get("parallel.cp_algo") == "ring" else cp
    if cp > 1 and seq and seq % parts:
        yield Hit("F07", f"cutoff_len {seq}, cp_size {cp}", "training.seq_length")


def family(c: Context) -> Iterator[Hit]:
    """F09, F11, F12: options against the model."""
    model_id, ep = c.get("model.model_id"), c.number("parallel.ep")
    if ep == 1 and (c.get("parallel.ep_modules") or c.get("parallel.ep_fsdp_modules")):
        yield Hit("F09", "ep_size 1", "parallel.ep_modules")
    used = [name for name in _LINEAR_OPTIONS if name in c.raw.get("optimisations", ())]
    if model_id and model_id not in _LINEAR:
        for name in used:
            yield Hit("F11", f"{name} with model_id {model_id}", f"optimization.{name}")
    if model_id in _EXPERTS and "moe_grouped_gemm" not in c.raw.get("optimisations", ()):
        yield Hit("F12", f"model_id {model_id}", "model.model_id")


def length(c: Context) -> Iterator[Hit]:
    """F13, F14: what ends the run, what it logs."""
    steps, epochs = c.get("training.steps"), c.get("training.epochs")
    epochs = 3.0 if epochs is None else epochs
    if steps and steps > 0 and epochs < _FEW_EPOCHS:
        yield Hit("F13", f"max_steps {steps}, num_train_epochs {epochs}", "training.steps")
    if not c.get("training.log_throughput"):
        yield Hit("F14", "log_throughput is off", "training.log_interval")


def data(c: Context) -> Iterator[Hit]:
    """F18, F19: options of the data section."""
    if c.get("data.reset_attention_mask"):
        micro = c.get("batch.micro")
        if not c.get("data.append_eod") or micro not in (None, 1):
            yield Hit("F18", f"batch {micro}", "data.reset_attention_mask")
    given = c.imported.origins if c.imported is not None else {}
    if "data.eval_dataset" in given and c.get("data.val_size"):
        yield Hit("F19", "eval_dataset and val_size", "data.val_size")
    if "data.streaming" in given and c.get("data.max_samples"):
        yield Hit("F19", "streaming and max_samples", "data.max_samples")


CHECKS = (sizes, family, length, data)
