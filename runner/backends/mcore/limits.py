"""What this backend does not run, said before anything heavy is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from certify.errors import InfrastructureError, UsageError
from runner.backends.mcore import families

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.runspec import RunSpec

# Megatron's own names of these schedules are the ones of the run spec.
SCHEDULES = ("cosine", "linear", "constant")


def check(spec: RunSpec) -> None:
    """Raises UsageError for a run that this backend would train to other semantics, and
    InfrastructureError for one that lacks a library."""
    found = families.family(spec.model.hf_config)
    for key, value, ok, expected in _limits(spec):
        if not ok:
            raise UsageError(
                f"the mcore backend does not run {key} = {value!r}",
                where=f"spec.json: {key}",
                expected=expected,
            )
    if found.moe and spec.device == "cuda" and find_spec("transformer_engine") is None:
        # Its router reads a name that only an import of Transformer Engine defines. On a CPU
        # that is patched; on CUDA nothing is.
        raise InfrastructureError(
            "megatron-core's router needs Transformer Engine on cuda",
            where="spec.json: device",
            hint="pip install 'transformer-engine[pytorch]'",
        )


def _limits(spec: RunSpec) -> Iterator[tuple[str, object, bool, str]]:
    """(key, value, whether it is run, what would be)."""
    t, checkpoint = spec.training, spec.checkpoint
    yield "world_size", spec.world_size, spec.world_size == 1, "1"
    yield "device", spec.device, spec.device in ("cpu", "cuda"), "'cpu' or 'cuda'"
    yield "model.dtype", spec.model.dtype, spec.model.dtype == "float32", "'float32'"
    # A reference runs through. Loading is refused rather than risked: Megatron's load gives every
    # parameter one and the same Adam step tensor, which then counts once per parameter.
    yield "checkpoint.save_steps", checkpoint.save_steps, not checkpoint.save_steps, "none"
    yield "checkpoint.resume_from", checkpoint.resume_from, not checkpoint.resume_from, "null"
    yield "training.optimizer", t.optimizer, t.optimizer == "adamw", "'adamw'"
    yield "training.schedule", t.schedule, t.schedule in SCHEDULES, " or ".join(SCHEDULES)
    warms_up = t.warmup_steps < t.decay_steps
    yield "training.warmup_steps", t.warmup_steps, warms_up, f"below decay_steps {t.decay_steps}"
    divides = t.micro_batch > 0 and t.global_batch % t.micro_batch == 0
    yield "training.micro_batch", t.micro_batch, divides, f"a divisor of {t.global_batch}"
    if t.aux_loss_coef:
        formula = t.aux_loss_formula
        yield "training.aux_loss_formula", formula, formula == "megatron", "'megatron'"
        # Megatron averages the auxiliary loss over micro-batches, each with its own token
        # counts; the formula counts the tokens of the global batch. One micro-batch is both.
        whole = t.micro_batch == t.global_batch
        yield "training.micro_batch", t.micro_batch, whole, f"global_batch {t.global_batch}"
