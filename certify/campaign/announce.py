"""What ``certify run`` says before it starts and after it ended."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from certify.campaign import estimate
from certify.campaign.phases import PHASES
from certify.campaign.progress import duration

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from certify.campaign.layout import Layout
    from certify.campaign.request import Request
    from certify.campaign.state import CampaignState

# What a pass of a scale may and may not claim; said first, before anything runs.
CLAIMS = {
    "tiny": (
        'a pass says "mechanics verified (tiny, {device})": model, parallelism, optimizer,',
        "schedule, data order and checkpoint do what the reference does.",
        "It says nothing of full size, speed or memory, nothing of any other device, and it",
        "moves no published status.",
    )
}
_SHORT = 24


def opening_lines(request: Request, home: Path, notes: Iterable[str]) -> list[str]:
    """What runs, what its result may claim, how long it takes and how much disk it needs."""
    seconds = estimate.phase_seconds(home, request.scale, request.device, request.phases)
    lines = [
        f"certify run {request.recipe_id}  backend {request.backend}"
        f"  scale {request.scale_name}  device {request.device}",
        *(f"note: {note}" for note in notes),
        *(f"  {text.format(device=request.device)}" for text in CLAIMS[request.scale_name]),
        f"about {duration(sum(seconds.values()))} and"
        f" {estimate.disk_mb(request.scale, request.phases)} MB of disk,"
        f" {len(request.phases)} phases; no network is used",
    ]
    if request.fault:
        lines.append(f"with the seeded fault {request.fault[1]!r} on the {request.fault[0]} side")
    return lines


def describe(request: Request, home: Path) -> dict[str, Any]:
    """What would run, for ``--dry-run --json``."""
    seconds = estimate.phase_seconds(home, request.scale, request.device, request.phases)
    return {
        "schema": "certify.run/1",
        "dry_run": True,
        "recipe": request.recipe_id,
        "backend": request.backend,
        "scale": request.scale_name,
        "device": request.device,
        "inject": request.fault[1] if request.fault else None,
        "adaptation": request.recipe.get("adaptation"),
        "reference": request.reference,
        "phases": [
            {"name": name, "summary": PHASES[name].summary, "estimate_s": seconds[name]}
            for name in request.phases
        ],
        "estimate_s": sum(seconds.values()),
        "disk_mb": estimate.disk_mb(request.scale, request.phases),
        "scaling": [
            {"key": c.key, "published": c.published, "scaled": c.scaled, "rule": c.rule}
            for c in request.scaled.changes
        ],
        "training": request.scaled.training,
        "parallel": request.scaled.parallel,
        "world_size": request.scaled.world_size,
    }


def describe_text(request: Request, home: Path, notes: Iterable[str]) -> str:
    """The same for people."""
    body = describe(request, home)
    lines = [*opening_lines(request, home, notes), "", "scaling (published -> here, rule):"]
    for change in body["scaling"]:
        published, scaled = _short(change["published"]), _short(change["scaled"])
        lines.append(f"  {change['key']:<30} {published:>24} -> {scaled:<24} {change['rule']}")
    lines += ["", "phases:"]
    lines += [
        f"  {p['name']:<16} ~{duration(p['estimate_s']):<6} {p['summary']}" for p in body["phases"]
    ]
    return "\n".join([*lines, "", "nothing was written (--dry-run)"])


def closing_text(state: CampaignState, layout: Layout, wall_s: float, own_cpu_s: float) -> str:
    """Where everything lies, and where the time went. wall_s, own_cpu_s: of this call."""
    rows = [
        f"  {p.name:<16} {p.wall_s:7.1f} s wall  {p.cpu_s:7.1f} s CPU"
        f"{'  (cached)' if p.cached else ''}"
        for p in state.phases
    ]
    cpu = own_cpu_s + sum(p.cpu_s for p in state.phases if p.name != "judge")
    lines = [
        "",
        "time:",
        *rows,
        f"  {'all':<16} {wall_s:7.1f} s wall  {cpu:7.1f} s CPU, certify and its children",
        "",
    ]
    page = layout.page / "index.html"
    if page.exists():
        lines.append(f"page:         {page}")
    lines.append(f"records:      {layout.root / 'runs'}")
    if layout.bundle.exists():
        lines.append(f"evidence:     certify verify {shlex.quote(str(layout.bundle))}")
    if layout.verdict.exists():
        lines.append(f"judge again:  certify judge {shlex.quote(str(layout.root))}")
    return "\n".join(lines)


def _short(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."
