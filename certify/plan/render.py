"""A plan as text and as the JSON of ``certify plan --json``, whose keys are an interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from certify.plan.flops import FORMULA, active_parameters
from certify.plan.memory import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from certify.plan.changes import Change
    from certify.plan.communication import Collective
    from certify.plan.make import Plan
    from certify.plan.of_name import Question

SCHEMA = "certify.plan/1"


def gib(size: float) -> str:
    """Bytes in GiB, two digits."""
    return f"{size / GIB:,.2f} GiB"


def _memory_lines(plan: Plan) -> Iterator[str]:
    memory = plan.memory
    yield f"memory     {gib(memory.total)} of {gib(plan.device.memory)} a device " \
        f"({plan.usable:.0%} usable: {gib(plan.limit)}); peak at: {memory.at}"  # fmt: skip
    for name, size in sorted(memory.parts().items(), key=lambda item: -item[1]):
        if size:
            mark = "  <- dominates" if name == memory.dominant else ""
            yield f"  {name:<14} {gib(size):>14}  {size / memory.total:>4.0%}{mark}"


def _traffic_lines(plan: Plan) -> Iterator[str]:
    yield "traffic    of one device and step: payload, within a node, across nodes"
    for c in plan.collectives:
        yield (
            f"  {c.kind:<14} {c.group + ' ' + str(c.ranks):<14} {c.calls:>8,.0f} calls"
            f" {gib(c.payload):>14} {gib(c.within):>14} {gib(c.across):>14}  {c.why}"
        )


def _cost_lines(plan: Plan) -> Iterator[str]:
    model = plan.model
    yield (
        f"model      {model.parameters / 1e9:,.2f} B parameters,"
        f" {active_parameters(model) / 1e9:,.2f} B active (N_active)"
    )
    yield (
        f"compute    {plan.flops_per_token / 1e9:,.1f} GFLOP/token ({FORMULA}),"
        f" {plan.tokens_per_step:,} tokens a step, {plan.step_flops / 1e15:,.1f} PFLOP a step"
    )
    if plan.bound is not None:
        b, tokens = plan.bound, plan.tokens_per_step
        yield (
            f"time       {b.at_least_s:,.2f} to {b.at_most_s:,.2f} s a step"
            f" (compute {b.compute_s:,.2f} s, traffic {b.traffic_s:,.2f} s):"
            f" at most {tokens / b.at_least_s / plan.cluster.world_size:,.0f} tokens/s a device"
        )


def _effect(change: Change) -> str:
    memory = f"{'saves' if change.saved >= 0 else 'costs'} {gib(abs(change.saved))}"
    if change.faster_s is None:
        return memory
    return f"{abs(change.faster_s):,.2f} s {'less' if change.faster_s >= 0 else 'more'}, {memory}"


def text(
    question: Question, plan: Plan, helps: Sequence[Change], suggested: Sequence[Plan] | None
) -> str:
    """The plan for people."""
    verdict = "FITS" if plan.fits else "DOES NOT FIT"
    lines = [
        f"{question.recipe.id}, {question.backend}: {verdict}",
        f"layout     {plan.layout.words()}",
        f"cluster    {plan.cluster.nodes} nodes x {plan.cluster.npus_per_node} NPUs,"
        f" {plan.device.chip} ({plan.device.source})",
    ]
    lines += [f"problem    {sentence}" for sentence in plan.problems]
    lines += [*_memory_lines(plan), *_cost_lines(plan), *_traffic_lines(plan)]
    if helps:
        lines.append("helps most")
        lines += [
            f"  {c.what:<38} {_effect(c)}{'' if plan.fits or not c.plan.fits else ', then fits'}"
            for c in helps[:3]
        ]
    lines += [f"note       {note}" for note in question.notes]
    if suggested is not None:
        lines.append("suggested" if suggested else "suggested  nothing fits this cluster")
        lines += [f"  {gib(p.memory.total):>12}  {p.layout.words()}" for p in suggested]
    return "\n".join(lines)


def _collective(c: Collective) -> dict[str, Any]:
    return {
        "kind": c.kind,
        "group": c.group,
        "ranks": c.ranks,
        "calls": c.calls,
        "payload_bytes": c.payload,
        "within_bytes": c.within,
        "across_bytes": c.across,
    }


def plan_json(plan: Plan) -> dict[str, Any]:
    """The numbers of one plan."""
    bound = plan.bound
    return {
        "fits": plan.fits,
        "layout": plan.layout.words(),
        "problems": list(plan.problems),
        "memory": {
            "total_bytes": plan.memory.total,
            "peak_bytes": plan.memory.peak,
            "limit_bytes": plan.limit,
            "parts": plan.memory.parts(),
            "dominant": plan.memory.dominant,
            "at": plan.memory.at,
            "moments": dict(plan.memory.moments),
        },
        "collectives": [_collective(c) for c in plan.collectives],
        "flops_per_token": plan.flops_per_token,
        "flops_formula": FORMULA,
        "step_flops": plan.step_flops,
        "tokens_per_step": plan.tokens_per_step,
        "time": None
        if bound is None
        else {
            "compute_s": bound.compute_s,
            "traffic_s": bound.traffic_s,
            "at_least_s": bound.at_least_s,
            "at_most_s": bound.at_most_s,
        },
    }


def document(
    question: Question,
    plan: Plan,
    helps: Sequence[Change],
    suggested: Sequence[Plan] | None,
    trace: dict[str, Any] | None,
) -> dict[str, Any]:
    """``certify plan --json``."""
    return {
        "schema": SCHEMA,
        "recipe": question.recipe.id,
        "backend": question.backend,
        "cluster": {
            "nodes": plan.cluster.nodes,
            "npus_per_node": plan.cluster.npus_per_node,
            "world_size": plan.cluster.world_size,
        },
        "device": {
            "chip": plan.device.chip,
            "memory_bytes": plan.device.memory,
            "source": plan.device.source,
        },
        "parameters": plan.model.parameters,
        "active_parameters": active_parameters(plan.model),
        **plan_json(plan),
        "changes": [
            {
                "what": c.what,
                "saved_bytes": c.saved,
                "faster_s": c.faster_s,
                "fits": c.plan.fits,
            }
            for c in helps
        ],
        "suggested": None if suggested is None else [plan_json(p) for p in suggested],
        "trace": trace,
        "notes": list(question.notes),
    }
