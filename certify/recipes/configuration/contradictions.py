"""Values of a configuration that no run can have, alone or beside each other.

The first group are the checks of the backend's own parser (MindSpeed-LLM
mindspeed_llm/fsdp2/utils/arguments.py), the second what no optimizer or schedule can hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Contradiction:
    """names: the keys that are looked at; holds: whether their values go together."""

    names: tuple[str, ...]
    holds: Callable[[Callable[[str], Any]], bool]
    expected: str


def _not_both(first: str, second: str) -> Contradiction:
    return Contradiction(
        (first, second), lambda v: not (v(first) and v(second)), "one of them, not both"
    )


def _at_least(name: str, low: float, above: bool = False) -> Contradiction:
    def holds(v: Callable[[str], Any]) -> bool:
        value = v(name)
        return value is None or (value > low if above else value >= low)

    return Contradiction((name,), holds, f"{'above' if above else 'at least'} {low:g}")


def _between(name: str, high_in: bool = False) -> Contradiction:
    return Contradiction(
        (name,),
        lambda v: 0 <= v(name) <= 1 if high_in else 0 <= v(name) < 1,
        "from 0 to 1" if high_in else "from 0 to below 1",
    )


def _needs_model(name: str, models: str, fits: Callable[[str], bool]) -> Contradiction:
    return Contradiction(
        (name, "model.model_id"),
        lambda v: not v(name) or fits(v("model.model_id") or ""),
        f"model.model_id {models} with it",
    )


def _sparse(model_id: str) -> bool:
    return model_id in ("dsv32", "deepseek_v32", "deepseek_v4") or model_id.startswith("glm5")


def _probabilities_fit(v: Callable[[str], Any]) -> bool:
    given, named = v("data.interleave_probs"), v("data.dataset")
    if given is None or not isinstance(named, str):
        return True
    return len(str(given).split(",")) == len([n for n in named.split(",") if n.strip()])


CONTRADICTIONS = (
    Contradiction(
        ("model.model_name_or_path",),
        lambda v: bool(v("model.model_name_or_path")),
        "a model folder: the backend requires it",
    ),
    Contradiction(
        ("training.output_dir",),
        lambda v: bool(v("training.output_dir")),
        "a folder for results: the backend requires it",
    ),
    _not_both("data.mask_history", "data.train_on_prompt"),
    _not_both("data.eval_dataset", "data.val_size"),
    _not_both("optimization.use_triton_gdn", "optimization.use_flash_gdn"),
    Contradiction(
        ("data.streaming", "data.max_samples"),
        lambda v: not v("data.streaming") or v("data.max_samples") is None,
        "one of them, not both",
    ),
    Contradiction(
        ("data.streaming", "data.val_size"),
        lambda v: not (v("data.streaming") and 0 < v("data.val_size") < 1),
        "a whole number of samples while streaming",
    ),
    Contradiction(
        ("data.val_size", "data.dataset"),
        lambda v: not v("data.val_size") or bool(v("data.dataset")),
        "a dataset to take them from",
    ),
    Contradiction(
        ("data.interleave_probs", "data.mix_strategy"),
        lambda v: v("data.interleave_probs") is None or v("data.mix_strategy") != "concat",
        "mix_strategy interleave_under or interleave_over with probabilities",
    ),
    Contradiction(
        ("data.interleave_probs", "data.dataset"), _probabilities_fit, "one probability a dataset"
    ),
    Contradiction(
        ("data.reset_attention_mask", "data.append_eod"),
        lambda v: not v("data.reset_attention_mask") or bool(v("data.append_eod")),
        "append_eod True with it",
    ),
    Contradiction(
        ("data.reset_attention_mask", "training.per_device_train_batch_size"),
        lambda v: (
            not v("data.reset_attention_mask") or v("training.per_device_train_batch_size") == 1
        ),
        "a batch of 1 with it",
    ),
    Contradiction(
        ("model.init_special_tokens", "model.new_special_tokens_config"),
        lambda v: (
            not v("model.init_special_tokens").startswith("desc_")
            or v("model.new_special_tokens_config") is not None
        ),
        "new_special_tokens_config with it",
    ),
    Contradiction(
        ("model.model_id", "parallel.cp_size", "parallel.cp_type"),
        lambda v: (
            v("model.model_id") != "qwen3_next"
            or v("parallel.cp_size") <= 1
            or v("parallel.cp_type") == "ulysses"
        ),
        "cp_type ulysses",
    ),
    *(
        _needs_model(f"optimization.{name}", "deepseek_v4 or glm5x", _sparse)
        for name in (
            "use_sparse_flash_attn",
            "use_fused_lightning_indexer",
            "use_fused_lightning_indexer_loss",
        )
    ),
    *(
        _needs_model(f"optimization.{name}", "deepseek_v4", lambda model: model == "deepseek_v4")
        for name in ("use_ascend_mhc", "use_triton_swiglu_limit")
    ),
    _at_least("training.router_aux_loss_coef", 0),
    Contradiction(
        ("training.profile", "training.profile_step_start", "training.profile_step_end"),
        lambda v: (
            not v("training.profile")
            or (
                v("training.profile_step_start") >= 0
                and (
                    v("training.profile_step_end") == -1
                    or v("training.profile_step_end") > v("training.profile_step_start")
                )
            )
        ),
        "profile_step_start from 0, profile_step_end behind it or -1",
    ),
    Contradiction(
        ("parallel.fsdp_modules",),
        lambda v: bool(v("parallel.fsdp_modules")),
        "one pattern or more",
    ),
    # What no run can hold.
    _at_least("training.lr", 0, above=True),
    _at_least("training.min_lr", 0),
    Contradiction(
        ("training.lr", "training.lr_scheduler_type", "training.min_lr"),
        lambda v: (
            v("training.lr_scheduler_type") != "cosine" or v("training.min_lr") <= v("training.lr")
        ),
        "min_lr at most lr: a cosine falls",
    ),
    _between("training.warmup_ratio", high_in=True),
    _between("training.adam_beta1"),
    _between("training.adam_beta2"),
    _at_least("training.adam_epsilon", 0, above=True),
    _at_least("training.weight_decay", 0),
    _at_least("training.max_grad_norm", 0),
    _at_least("training.seed", 0),
    _at_least("training.num_train_epochs", 0, above=True),
    _at_least("training.per_device_train_batch_size", 1),
    _at_least("training.gradient_accumulation_steps", 1),
    _at_least("data.cutoff_len", 2),
    _at_least("data.max_samples", 1),
)
