"""What each phase does: the spec it writes and the process it starts, or the work done here."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.campaign import commands, crossing, references, reshard, specs, upgrading
from certify.campaign.evidence import sign_plan
from certify.campaign.files import read_json, write_atomic, write_json
from certify.campaign.phases import judged_alone, requested_gates
from certify.campaign.plan import build_plan
from certify.campaign.worker_loss import phase as worker_loss
from certify.errors import UsageError
from certify.runspec import (
    CompareSpec,
    PrepareSpec,
    write_compare_spec,
    write_prepare_spec,
    write_spec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from certify.campaign.driver import Driver
    from certify.campaign.layout import Layout
    from certify.campaign.processes import Job
    from certify.runspec import RunSpec

RECIPE_SCHEMA = "certify.scaled-recipe/1"


def write_recipe(driver: Driver) -> None:
    """Write ``recipe.json``: the published facts, what they became and by which rule."""
    request, scaled = driver.request, driver.request.scaled
    write_json(
        driver.layout.recipe,
        {
            "schema": RECIPE_SCHEMA,
            "id": request.recipe_id,
            "backend": request.backend,
            "scale": request.scale_name,
            "scale_version": request.scale["version"],
            "source": request.recipe.get("source"),
            "published": request.recipe,
            "scaling": [dataclasses.asdict(change) for change in scaled.changes],
            "hf_config": scaled.hf_config,
            "training": scaled.training,
            "parallel": scaled.parallel,
            "data": scaled.data,
        },
    )


def run_ids(driver: Driver) -> dict[str, str]:
    """phase -> id of the run that counts for it."""
    return {p.name: p.run_id for p in driver.state.phases if p.run_id is not None}


def inputs(driver: Driver) -> specs.Inputs:
    """What the specs of all training runs share; the preparation must have run."""
    request, layout = driver.request, driver.layout
    return specs.Inputs(
        layout=layout,
        campaign_id=driver.state.id,
        recipe_id=request.recipe_id,
        scaled=request.scaled,
        prepared=read_json(layout.prepared / "prepared.json", "the preparation"),
        hf_config=read_json(layout.prepared / "config.json", "the model configuration"),
        device=request.device,
        world_size=request.scaled.world_size,
        backend=request.backend,
        fault=request.fault,
    )


def _prepare(driver: Driver, name: str, run_id: str) -> Job:
    request, data = driver.request, driver.request.scaled.data
    spec = PrepareSpec(
        out_dir=str(driver.layout.prepared),
        hf_config=dict(request.scaled.hf_config),
        weights_seed=data["weights_seed"],
        seq_length=data["seq_length"],
        global_batch=data["global_batch"],
        steps=request.scaled.training["steps"],
        shuffle_seed=request.scaled.training["seed"],
        samples=data["samples"],
        probe_positions=data["probe_positions"],
        data_path=request.data_path,
        tokenizer_path=request.tokenizer_path,
        cache_dir=str(driver.home / "cache"),
        further_data_paths=request.further_data_paths,
        max_documents=request.max_documents,
    )
    path = driver.layout.run(run_id) / "prepare.json"
    write_prepare_spec(spec, path)
    return commands.module_job(name, driver.layout, run_id, "runner.prepare", str(path))


def after_prepare(driver: Driver) -> None:
    """Fix the plan, before anything that it judges is launched."""
    from certify.criteria.load import load_criteria

    criteria = load_criteria()
    shared = inputs(driver)
    if driver.store.get_campaign(driver.state.id).plan_sha256 is not None:
        # A preparation made again: the plan stands, and what was prepared must be what it says.
        check_plan(driver)
        return
    runs = {
        p.name: p.run_id or f"{driver.state.id}-{p.name}"
        for p in driver.state.phases
        if p.name not in ("prepare", "judge", "report")
    }
    plan = build_plan(
        shared,
        scale=driver.request.scale_name,
        stage=driver.request.stage,
        criteria={"version": criteria.version, "sha256": criteria.sha256},
        runs=runs,
        requested=_requested(driver, shared, runs),
    )
    write_json(driver.layout.plan, plan)
    sign_plan(driver.layout, driver.state.id)
    digest = hashlib.sha256(driver.layout.plan.read_bytes()).hexdigest()
    driver.store.set_plan(driver.state.id, digest)


def _requested(driver: Driver, shared: specs.Inputs, runs: Mapping[str, str]) -> dict[str, Any]:
    """What the phases of gates that are not always judged add to the plan."""
    phases, scale = driver.request.phases, driver.request.scale
    added: dict[str, Any] = {
        "requested": list(requested_gates(phases)),
        "only": list(judged_alone(phases)),
    }
    if "reshard" in phases:
        added["reshard"] = reshard.planned(shared, scale, runs["reshard"])
    if "worker-loss" in phases:
        count = driver.request.injections
        added["worker_loss"] = worker_loss.planned(shared, scale, count)
    if "cross-backend" in phases:
        added["crossing"] = crossing.planned(shared, runs["cross-backend"])
    if "upgrade" in phases and driver.request.stacks is not None:
        added["upgrade"] = upgrading.planned(shared, runs["upgrade"], driver.request.stacks)
    return added


def check_plan(driver: Driver) -> None:
    """Raise UsageError unless the plan is the one that was fixed, and the preparation its own."""
    fixed = driver.store.get_campaign(driver.state.id).plan_sha256
    path = driver.layout.plan
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
    if fixed is None or found != fixed:
        raise UsageError(
            "the plan was changed after it was fixed" if found else "the plan is gone",
            where=str(path),
            expected=f"sha256 {fixed}",
            hint="start a campaign of its own: --fresh, or another --out",
        )
    planned = read_json(path, "the plan")["expected"]["weights_digest"]
    if inputs(driver).prepared["weights_digest"] != planned:
        raise UsageError(
            "the prepared weights are not those of the plan",
            where=str(driver.layout.prepared),
            expected=f"digest {planned}",
            hint="start a campaign of its own: --fresh, or another --out",
        )


def prepared_is_whole(layout: Layout) -> bool:
    """Whether every file of the preparation is there with the digest that it was made with."""
    try:
        files = read_json(layout.prepared / "prepared.json", "the preparation")["files"]
        return all(
            hashlib.sha256((layout.prepared / name).read_bytes()).hexdigest() == digest
            for name, digest in files.items()
        )
    except (UsageError, OSError, KeyError, TypeError):
        return False


def _write_and(driver: Driver, run_id: str, spec: RunSpec) -> Path:
    path = driver.layout.run(run_id) / "spec.json"
    write_spec(spec, path)
    return path


def _reference(driver: Driver, name: str, run_id: str) -> Job:
    spec = specs.reference_spec(inputs(driver), run_id, again=name != "reference")
    path = _write_and(driver, run_id, spec)
    return commands.module_job(name, driver.layout, run_id, "runner", str(path))


def _candidate(driver: Driver, name: str, run_id: str) -> Job:
    spec = specs.candidate_spec(inputs(driver), run_id, again=name != "candidate")
    path = _write_and(driver, run_id, spec)
    return commands.torchrun_job(name, driver.layout, run_id, spec.world_size, path)


def _resume(driver: Driver, name: str, run_id: str) -> Job:
    candidate = driver.state.phase("candidate").run_id or ""
    spec = specs.resume_spec(inputs(driver), run_id, candidate)
    path = _write_and(driver, run_id, spec)
    return commands.torchrun_job(name, driver.layout, run_id, spec.world_size, path)


def _reshard(driver: Driver, name: str, run_id: str) -> Job:
    candidate = driver.state.phase("candidate").run_id or ""
    return reshard.job(inputs(driver), driver.request.scale, run_id, candidate)


def _worker_loss(driver: Driver, name: str, run_id: str) -> Job:
    shared, request = inputs(driver), driver.request
    candidate = driver.state.phase("candidate").run_id or ""
    saved = driver.layout.checkpoint(candidate, shared.scaled.resume["save_step"])
    return worker_loss.job(shared, request.scale, run_id, request.injections, saved)


def _cross_backend(driver: Driver, name: str, run_id: str) -> Job:
    return crossing.job(inputs(driver), run_id, driver.state.phase("candidate").run_id or "")


def _upgrade(driver: Driver, name: str, run_id: str) -> Job:
    assert driver.request.stacks is not None
    return upgrading.job(inputs(driver), run_id, driver.request.stacks)


def _compare(driver: Driver, name: str, run_id: str) -> Job:
    layout, ids = driver.layout, run_ids(driver)
    again = ids.get("reference-again")
    spec = CompareSpec(
        run_id=run_id,
        campaign_id=driver.state.id,
        run_dir=str(layout.run(run_id)),
        candidate_dir=str(layout.run(ids["candidate"])),
        reference_dir=str(layout.run(ids["reference"])),
        reference_again_dir=str(layout.run(again)) if again else None,
        weights_dir=str(layout.prepared / "weights"),
        probe_file=str(layout.prepared / "probe.npy"),
        hf_config=dict(inputs(driver).hf_config),
        dtype="float32",
        backend=driver.request.backend,
    )
    path = layout.run(run_id) / "compare.json"
    write_compare_spec(spec, path)
    return commands.module_job(name, layout, run_id, "runner.compare", str(path))


def _report(driver: Driver, name: str, run_id: str) -> Job:
    layout = driver.layout
    words = ("campaign", str(layout.root), str(layout.page), "--home", str(driver.home))
    return commands.module_job(name, layout, run_id, "reports", *words)


def _judge(driver: Driver) -> None:
    from certify.criteria.judge import judge_campaign, verdict_json

    document = verdict_json(judge_campaign(driver.layout.root))
    write_atomic(driver.layout.verdict, document)


def reference_key(driver: Driver) -> str:
    """Digest of everything that decides the reference's trajectory (`references`)."""
    shared = inputs(driver)
    spec = specs.reference_spec(shared, "key")
    parts: dict[str, Any] = {
        "hf_config": dict(shared.hf_config),
        "prepared": shared.prepared["digest"],
        "training": dataclasses.asdict(spec.training),
        "evidence": {
            key: value
            for key, value in dataclasses.asdict(spec.evidence).items()
            if key != "probe_file"
        },
        "backend": spec.backend,
        "device": spec.device,
        "threads": spec.threads,
        "deterministic": spec.deterministic,
        "fault": spec.fault,
        "versions": driver.request.versions,
        "machine": platform.machine(),
        "processor": _processor(),
    }
    return references.reference_key(parts)


def _processor() -> str:
    """Name of the processor model: other vector units round differently."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    kept = [line for line in lines if line.startswith(("model name", "CPU part", "flags"))]
    return "\n".join(sorted(set(kept)))


def step_range(driver: Driver, name: str) -> tuple[int, int]:
    """First and last step that a phase trains, for its progress line."""
    scaled = driver.request.scaled
    if name == "resume":
        save = scaled.resume["save_step"]
        return save + 1, save + scaled.resume["steps"]
    return 1, scaled.training["steps"]


JOBS: dict[str, Callable[[Driver, str, str], Job]] = {
    "prepare": _prepare,
    "reference": _reference,
    "reference-again": _reference,
    "candidate": _candidate,
    "candidate-again": _candidate,
    "resume": _resume,
    "reshard": _reshard,
    "worker-loss": _worker_loss,
    "cross-backend": _cross_backend,
    "upgrade": _upgrade,
    "compare": _compare,
    "report": _report,
}
IN_PROCESS: dict[str, Callable[[Driver], None]] = {"judge": _judge}
