"""The second method: a step of a shallow model traced by ``runner.plan_trace``, extrapolated.

Every quantity is linear in the number of layers; the peak is linear within a moment, so each
moment is extrapolated by itself and the largest is taken.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from certify.errors import CannotJudgeError, InfrastructureError
from certify.json_text import load_json
from certify.plan import communication, memory_fsdp2, sharding
from certify.plan.layout import Fsdp2Layout
from certify.runspec import ParallelSpec
from certify.runspec.plan import PlanSpec, write_plan_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from certify.plan.architecture import Architecture
    from certify.plan.layout import Cluster
    from certify.plan.make import Plan
    from certify.plan.of_name import Question

TIMEOUT_S = 180
_LONG = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
# Agreement that docs/plan.md promises between formula and trace, relative.
TOLERANCES = {"parameters": 0.02, "optimizer": 0.02, "peak": 0.05}
_COLLECTIVE_TOLERANCE = 0.02


@dataclass(frozen=True)
class Traced:
    """One quantity by both methods, bytes (parameters: elements)."""

    name: str
    formula: float
    trace: float
    tolerance: float

    @property
    def difference(self) -> float:
        """Formula over trace, less one."""
        return self.formula / self.trace - 1 if self.trace else float(bool(self.formula))

    @property
    def agrees(self) -> bool:
        """Within the tolerance."""
        return abs(self.difference) <= self.tolerance


def depths(model: Architecture, hf_config: Mapping[str, Any]) -> tuple[int, int]:
    """Two depths whose difference holds only layers of the kind that repeats.

    2 and 4, behind the leading dense layers; whole periods where layers alternate.
    """
    leading = 0
    while (
        leading < len(model.layers)
        and model.layers[leading].moe is None
        and any(layer.moe for layer in model.layers)
    ):
        leading += 1
    kinds = hf_config.get("layer_types") or []
    period = next((i + 1 for i, kind in enumerate(kinds) if kind != kinds[0]), 1)
    step = max(2, period)
    return leading + step, leading + 2 * step


def extrapolate(first: float, second: float, at: tuple[int, int], layers: int) -> float:
    """The line through two depths, read at another."""
    return first + (second - first) / (at[1] - at[0]) * (layers - at[0])


def _peaks(traces: list[dict[str, Any]], at: tuple[int, int], layers: int) -> dict[str, float]:
    """Peak of every moment of the whole model."""
    first, second = (t["peaks"] for t in traces)
    found = {
        name: extrapolate(first[name], second[name], at, layers) for name in first if name in second
    }
    slope = (second["backward of the first layer"] - first["backward of the first layer"]) / (
        at[1] - at[0]
    )
    # Only the deeper model has layers that are neither first nor last; what grows with the depth
    # there are the gradients, as at the first layer.
    inner = [second[n] for n in second if n.startswith("backward") and n not in first]
    if inner:
        found["backward of the second layer"] = max(inner) + slope * (layers - at[1])
    return found


def spec_of(hf_config: Mapping[str, Any], layout: Fsdp2Layout, at: tuple[int, int],
            out_file: str) -> PlanSpec:  # fmt: skip
    """What the runner is asked to trace: the layout at the real number of ranks."""
    return PlanSpec(
        hf_config=dict(hf_config),
        layers=at,
        world_size=layout.world_size,
        micro_batch=layout.micro_batch,
        seq_length=layout.seq_length,
        out_file=out_file,
        parallel=ParallelSpec(
            fsdp_size=layout.fsdp,
            replicate_size=layout.replicate,
            ep_size=layout.ep,
            ep_fsdp_size=layout.ep_fsdp,
            ignored_modules=layout.ignored,
            recompute_modules=("model.layers.{*}",) if layout.recompute else (),
            param_dtype=_LONG[layout.param_dtype],
            reduce_dtype=_LONG[layout.reduce_dtype],
        ),
        dtype=_LONG[layout.master_dtype],
        chunk_loss_size=layout.chunk_loss_size,
    )


def run_trace(spec: PlanSpec, folder: Path, timeout_s: int = TIMEOUT_S) -> dict[str, Any]:
    """Start the runner on a spec and read its result.

    Raises InfrastructureError when it fails or takes longer than the limit.
    """
    path = folder / "plan.json"
    write_plan_spec(spec, path)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "runner.plan_trace", str(path)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"the trace took longer than {timeout_s} s",
            where=" ".join(command[1:]),
            hint="plan by formula only: leave out --trace",
        ) from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise InfrastructureError(
            f"the trace failed with exit code {done.returncode}: {last[0]}",
            where=" ".join(command[1:]),
            hint="pip install 'ascend-certify[run]'",
        )
    result: dict[str, Any] = load_json(Path(spec.out_file).read_text(encoding="utf-8"))
    return result


def _moved(items: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for kind, size in items:
        sums[kind] = sums.get(kind, 0.0) + size
    return sums


def compare(
    model: Architecture,
    layout: Fsdp2Layout,
    cluster: Cluster,
    result: Mapping[str, Any],
    layers: int | None = None,
) -> list[Traced]:
    """Both methods side by side. layers: depth to extrapolate to, the model's by default."""
    depth = layers or len(model.layers)
    traces = result["traces"][:2]
    at = (traces[0]["layers"], traces[1]["layers"])

    def line(key: str) -> float:
        return extrapolate(traces[0][key], traces[1][key], at, depth)

    memory = memory_fsdp2.memory(model, layout)
    stored = sharding.local_elements(model, layout)
    width = memory.parameters / stored
    found = [
        Traced("parameters", stored, line("parameters"), TOLERANCES["parameters"]),
        Traced("optimizer", 2 * width * stored, line("optimizer_bytes"), TOLERANCES["optimizer"]),
        Traced("peak", memory.peak, max(_peaks(traces, at, depth).values()), TOLERANCES["peak"]),
    ]
    seen = [_moved((c["kind"], c["bytes"]) for c in t["collectives"]) for t in traces]
    planned = _moved((c.kind, c.payload) for c in communication.fsdp2(model, layout, cluster))
    for kind in sorted({*seen[0], *planned}):
        traced = extrapolate(seen[0].get(kind, 0.0), seen[1].get(kind, 0.0), at, depth)
        found.append(Traced(kind, planned.get(kind, 0.0), traced, _COLLECTIVE_TOLERANCE))
    return found


def untraceable(model: Architecture) -> str | None:
    """What of a model the trace cannot follow, None when it can."""
    if any(".indexer." in weight.name for weight in model.weights):
        return "the sparse indexer: stock transformers writes out what a fused kernel never holds"
    if any(layer.moe is not None and layer.moe.zero_experts for layer in model.layers):
        return "experts without weights: how many rows they take depends on values"
    return None


def trace_question(question: Question, plan: Plan) -> tuple[list[Traced], dict[str, Any]]:
    """Trace what was planned and compare. Raises CannotJudgeError where there is no trace."""
    layout = plan.layout
    if not isinstance(layout, Fsdp2Layout) or question.config is None:
        raise CannotJudgeError(
            "only FSDP2 layouts of models with a public configuration can be traced",
            where=question.recipe.id,
            hint="plan by formula only: leave out --trace",
        )
    if plan.problems:
        raise CannotJudgeError(f"nothing to trace: {plan.problems[0]}", where=question.recipe.id)
    reason = untraceable(plan.model)
    if reason is not None:
        raise CannotJudgeError(
            f"the trace cannot follow {reason}",
            where=question.recipe.id,
            hint="plan by formula only: leave out --trace",
        )
    config = question.config.config
    with TemporaryDirectory(prefix="certify-plan-") as folder:
        spec = spec_of(config, layout, depths(plan.model, config), str(Path(folder, "trace.json")))
        result = run_trace(spec, Path(folder))
    # One micro-batch is traced; collectives of the plan are those of the whole step.
    one = replace(layout, grad_accumulation=1)
    return compare(plan.model, one, plan.cluster, result), result
