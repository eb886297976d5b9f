"""What this backend does not run, said before anything heavy is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from certify.errors import InfrastructureError, UsageError
from runner.backends.mcore import families, layouts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.runspec import RunSpec

FORMULAS = ("megatron", "megatron-micro-batch")
# Megatron's own names of these schedules are the ones of the run spec.
SCHEDULES = ("cosine", "linear", "constant")


def check(spec: RunSpec) -> None:
    """Raises UsageError for a run that this backend would train to other semantics, and
    InfrastructureError for one that lacks a library."""
    found = families.require_runs(spec.model.hf_config)
    layouts.check(spec)
    for key, value, ok, expected in _limits(spec):
        if not ok:
            raise UsageError(
                f"the mcore backend does not run {key} = {value!r}",
                where=f"spec.json: {key}",
                expected=expected,
            )
    if (
        (found.moe or found.latent)
        and spec.device == "cuda"
        and find_spec("transformer_engine") is None
    ):
        # They read names that only an import of Transformer Engine defines. On a CPU that is
        # patched; on CUDA nothing is.
        raise InfrastructureError(
            "megatron-core's router and latent attention need Transformer Engine on cuda",
            where="spec.json: device",
            hint="pip install 'transformer-engine[pytorch]'",
        )


def _limits(spec: RunSpec) -> Iterator[tuple[str, object, bool, str]]:
    """(key, value, whether it is run, what would be)."""
    t = spec.training
    yield "device", spec.device, spec.device in ("cpu", "cuda", "npu"), "'cpu', 'cuda' or 'npu'"
    yield "model.dtype", spec.model.dtype, spec.model.dtype == "float32", "'float32'"
    yield "training.optimizer", t.optimizer, t.optimizer == "adamw", "'adamw'"
    yield "training.schedule", t.schedule, t.schedule in SCHEDULES, " or ".join(SCHEDULES)
    warms_up = t.warmup_steps < t.decay_steps
    yield "training.warmup_steps", t.warmup_steps, warms_up, f"below decay_steps {t.decay_steps}"
    bias = t.router_bias_update_rate
    yield "training.router_bias_update_rate", bias, bias == 0, "0"
    if t.aux_loss_coef:
        formula = t.aux_loss_formula
        yield "training.aux_loss_formula", formula, formula in FORMULAS, " or ".join(FORMULAS)
        # Megatron averages the auxiliary loss over micro-batches, each with its own token
        # counts; the plain formula counts the tokens of the global batch. One micro-batch on one
        # data-parallel rank is both.
        whole = t.micro_batch == t.global_batch or formula != "megatron"
        yield "training.micro_batch", t.micro_batch, whole, f"global_batch {t.global_batch}"
