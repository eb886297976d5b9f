"""Every layout trains what one rank trains, continues exactly, and refuses what it cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from certify import records
from certify.errors import CannotJudgeError, UsageError
from certify.plan import build, communication
from certify.plan.facts import of_config
from certify.plan.layout import Cluster, McoreLayout, Recompute
from certify.plan.memory_mcore import optimizer_bytes, rank_elements
from certify.plan.pipeline import stages_of
from certify.runspec import CheckpointSpec, EvidenceSpec
from runner import evidence
from runner.backends.mcore import limits
from tests.runner.mcore import tiny

if TYPE_CHECKING:
    from certify.plan.architecture import Architecture
    from certify.runspec import RunSpec
    from tests.runner.mcore.tiny import Run

pytestmark = pytest.mark.torch

STEPS, SAVED = 6, 3
COUNTED = "tests.runner.mcore.counted"
PARITY = 2e-6  # loss, fp32: what this backend promises between layouts
# name -> (family, ranks, fields of the layout). CI runs the first of each kind.
LAYOUTS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "tp2-recompute": ("dense", 2, {"tp_size": 2, "recompute": "full"}),
    "vpp2": ("dense", 2, {"pp_size": 2, "vpp_size": 2}),
    "dp2-distributed": ("dense", 2, {"distributed_optimizer": True}),
    "ep2-alltoall": ("moe", 2, {"ep_size": 2, "moe_dispatcher": "alltoall"}),
}
MORE: dict[str, tuple[str, int, dict[str, Any]]] = {
    "tp2": ("dense", 2, {"tp_size": 2}),
    "pp2": ("dense", 2, {"pp_size": 2}),
    "dp2": ("dense", 2, {}),
    "ep2-allgather": ("moe", 2, {"ep_size": 2}),
    "pp2-moe": ("moe", 2, {"pp_size": 2, "recompute": "full"}),
    "ep2-distributed": (
        "moe",
        2,
        {"ep_size": 2, "moe_dispatcher": "alltoall", "distributed_optimizer": True},
    ),
    "tp2-pp2": ("dense", 4, {"tp_size": 2, "pp_size": 2}),
    "tp2-dp2": ("dense", 4, {"tp_size": 2, "distributed_optimizer": True}),
    "vpp2-dp2": ("dense", 4, {"pp_size": 2, "vpp_size": 2, "distributed_optimizer": True}),
    "ep2-pp2": (
        "moe",
        4,
        {"ep_size": 2, "pp_size": 2, "moe_dispatcher": "alltoall", "distributed_optimizer": True},
    ),
    "ep2-dp2": ("moe", 4, {"ep_size": 2, "moe_dispatcher": "alltoall"}),
    "ep4": ("moe", 4, {"ep_size": 4, "moe_dispatcher": "alltoall"}),
}


def base(folder: Path, model_type: str, **changes: Any) -> RunSpec:
    config = tiny.hf_config(model_type, num_hidden_layers=4, **changes)
    aux = 1e-2 if "moe" in model_type else 0.0
    spec = tiny.make_spec(
        folder,
        config,
        STEPS,
        aux_loss_coef=aux,
        aux_loss_formula="megatron-micro-batch",
        micro_batch=1,
    )
    return replace(spec, role="candidate", checkpoint=CheckpointSpec(save_steps=(SAVED,)))


@pytest.fixture(scope="module")
def alone(megatron: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One rank, family -> run."""
    folder = tmp_path_factory.mktemp("layouts")
    dense = base(folder / "dense", "qwen3", tie_word_embeddings=True)
    moe = base(folder / "moe", "qwen3_moe")
    return dict(zip(("dense", "moe"), tiny.start_all([dense, moe]), strict=True))


def specs(alone: dict[str, Run], names: dict[str, tuple[str, int, Any]]) -> list[RunSpec]:
    return [
        tiny.with_layout(alone[family].spec, name, ranks, **layout)
        for name, (family, ranks, layout) in names.items()
    ]


@pytest.fixture(scope="module")
def several(alone: dict[str, Run]) -> dict[str, Run]:
    """name -> run of `LAYOUTS`, and the fault of unset tensor-parallel attributes."""
    wanted = specs(alone, LAYOUTS)
    unset = tiny.changed(wanted[0], "unset", fault="tensor-parallel-unset", stop_step=2)
    found = tiny.start_all([*wanted, unset], COUNTED)
    return dict(zip((*LAYOUTS, "unset"), found, strict=True))


def state(run: Run, at: str) -> dict[str, str]:
    return next(s.digests for s in run.file.of(records.State) if s.at == at)


def same_training(run: Run, reference: Run) -> None:
    assert run.code == 0, run.stderr
    steps, expected = run.file.steps(), reference.file.steps()
    assert sorted(steps) == sorted(expected) == list(range(1, STEPS + 1))
    for number, step in steps.items():
        wanted = expected[number]
        assert step.loss == pytest.approx(wanted.loss, abs=PARITY)
        assert step.grad_norm == pytest.approx(wanted.grad_norm, rel=1e-5)
        assert (step.lr, step.tokens, step.supervised_tokens) == (
            wanted.lr,
            wanted.tokens,
            wanted.supervised_tokens,
        )
        assert step.tokens_sha256 == wanted.tokens_sha256
        assert step.mask_sha256 == wanted.mask_sha256
        assert step.routing_sha256 == wanted.routing_sha256
        if wanted.aux_loss is not None:
            assert step.aux_loss == pytest.approx(wanted.aux_loss, rel=1e-5)
    assert state(run, "init")["params"] == state(reference, "init")["params"]
    for name in (evidence.GRADIENTS, evidence.PARAMETERS):
        mine, other = (evidence.read_tensors(r.spec.run_dir, name) for r in (run, reference))
        assert sorted(mine) == sorted(other)
        for key, tensor in mine.items():
            assert float((tensor - other[key]).norm()) <= 1e-4 * float(other[key].norm()), key
    found, wanted_probe = (evidence.read_probe(r.spec.run_dir) for r in (run, reference))
    assert found.rows == pytest.approx(wanted_probe.rows, abs=5e-6)
    assert (found.argmax == wanted_probe.argmax).all()
    effective = [
        {c.part: c.effective for c in r.file.of(records.Component)} for r in (run, reference)
    ]
    for part, key in (("model", "num_parameters"), ("optimizer", "decayed_parameters")):
        assert effective[0][part][key] == effective[1][part][key]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_trains_what_one_rank_trains(
    name: str, alone: dict[str, Run], several: dict[str, Run]
) -> None:
    same_training(several[name], alone[LAYOUTS[name][0]])
    (topology,) = several[name].file.of(records.Topology)
    layout = LAYOUTS[name][2]
    for group in ("tp", "pp", "ep"):
        assert len(topology.groups[group]) == layout.get(f"{group}_size", 1)


def planned(run: Run) -> tuple[Architecture, McoreLayout]:
    """The model and the layout of a run as `certify plan` sees them."""
    spec, parallel = run.spec, run.spec.parallel
    layout = McoreLayout(
        world_size=spec.world_size,
        tp=parallel.tp_size,
        pp=parallel.pp_size,
        virtual=parallel.vpp_size,
        ep=parallel.ep_size,
        seq_length=spec.data.seq_length,
        micro_batch=spec.training.micro_batch,
        distributed_optimizer=parallel.distributed_optimizer,
        recompute=Recompute("full", "uniform", 1) if parallel.recompute == "full" else Recompute(),
        param_dtype="fp32",
    )
    steps = spec.training.global_batch // (layout.dp * layout.micro_batch)
    model = build.architecture(of_config(spec.model.hf_config))
    return model, replace(layout, grad_accumulation=steps)


def sends_as_planned(run: Run) -> None:
    """What a rank sends in the schedule of a step is what `certify plan` says by formula. The
    distributed optimizer gathers its parameters after the schedule, and sums are left out."""
    model, layout = planned(run)
    counted = []
    for rank in range(run.spec.world_size):
        path = Path(run.spec.run_dir) / f"counted-{rank}.json"
        counted.append(json.loads(path.read_text(encoding="utf-8"))[-1])
    per_stage = run.spec.world_size // layout.pp
    for stage in range(layout.pp):
        ranks = counted[stage * per_stage : (stage + 1) * per_stage]
        found: dict[str, float] = {}
        for kind, peers, size in (entry for entries in ranks for entry in entries):
            if peers > 1:
                found[kind] = found.get(kind, 0.0) + size / len(ranks)
        expected: dict[str, float] = {}
        for one in communication.mcore(model, layout, Cluster(1, run.spec.world_size), stage):
            if one.why != "parameters" and (one.kind != "all_to_all" or with_rows(run)):
                expected[one.kind] = expected.get(one.kind, 0.0) + one.payload
        for kind, payload in expected.items():
            assert found[kind] == pytest.approx(payload, rel=0.02), kind
        small = {k: v for k, v in found.items() if k not in expected and with_rows(run)}
        assert sum(small.values()) <= 0.02 * sum(expected.values())


def with_rows(run: Run) -> bool:
    """Rows travel to their experts; the other dispatcher gathers all tokens everywhere."""
    parallel = run.spec.parallel
    return parallel.ep_size == 1 or parallel.moe_dispatcher == "alltoall"


def as_planned(run: Run) -> None:
    """What every rank holds is what `certify plan` says by formula."""
    spec = run.spec
    model, layout = planned(run)
    components = {c.part: c.effective for c in run.file.of(records.Component)}
    by_rank = components["model"]["held_by_rank"]
    assert len(by_rank) == spec.world_size
    stages = stages_of(model, layout)
    per_stage = spec.world_size // layout.pp  # Megatron numbers pipeline stages slowest
    updated = {stage.rank: 0 for stage in stages}
    for rank, held in enumerate(by_rank):
        stage = stages[rank // per_stage]
        weights = [w for chunk in stage.chunks for layer in chunk for w in layer.weights]
        dense, expert = rank_elements((*weights, *stage.outer), layout)
        assert held["parameters"] == dense + expert
        # Buffers are padded to multiples of 64 elements a parameter and 128 bytes a rank.
        assert 0 <= held["gradients"] - held["parameters"] <= 0.1 * held["parameters"]
        updated[stage.rank] += held["optimizer"]
    for stage in stages:
        weights = [w for chunk in stage.chunks for layer in chunk for w in layer.weights]
        dense, expert = rank_elements((*weights, *stage.outer), layout)
        # 12 bytes an element: a master copy and two moments.
        expected = optimizer_bytes(dense, expert, layout) / 12 * per_stage
        assert updated[stage.rank] == pytest.approx(expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_rank_holds_what_the_plan_says(name: str, several: dict[str, Run]) -> None:
    as_planned(several[name])


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_step_sends_what_the_plan_says(name: str, several: dict[str, Run]) -> None:
    sends_as_planned(several[name])


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_layout(ranks: int, alone: dict[str, Run]) -> None:
    names = {name: found for name, found in MORE.items() if found[1] == ranks}
    for name, run in zip(names, tiny.start_all(specs(alone, names), COUNTED), strict=True):
        same_training(run, alone[MORE[name][0]])
        as_planned(run)
        sends_as_planned(run)


def test_unset_attributes_are_seen_in_the_gradient_norm(several: dict[str, Run]) -> None:
    """The parity of losses at step 1 says nothing of it; the gate compares norms to 1e-5."""
    wrong, right = (several[n].file.steps()[1] for n in ("unset", "tp2-recompute"))
    assert wrong.loss_hex == right.loss_hex
    assert abs(wrong.grad_norm / right.grad_norm - 1) > 0.01


@pytest.fixture(scope="module")
def resumed(alone: dict[str, Run], several: dict[str, Run]) -> dict[str, Run]:
    """name -> the run continued from its checkpoint in fresh processes."""

    def continued(spec: RunSpec, name: str, **changes: Any) -> RunSpec:
        saved = Path(spec.run_dir) / "checkpoints" / f"step-{SAVED:06d}"
        controls = ("optimizer-dropped", "data-cursor-dropped")
        return tiny.changed(
            spec,
            f"{name}-resumed",
            checkpoint=CheckpointSpec(resume_from=str(saved)),
            evidence=EvidenceSpec(controls=controls, control_steps=2),
            **changes,
        )

    wanted = {name: continued(several[name].spec, name) for name in LAYOUTS}
    wanted["shared"] = continued(
        several["dp2-distributed"].spec, "shared", fault="shared-adam-step"
    )
    runs = dict(zip(wanted, tiny.start_all(list(wanted.values())), strict=True))
    to_one = continued(several["vpp2"].spec, "to-one", world_size=1)
    runs["vpp2-to-one"] = tiny.start(replace(to_one, parallel=alone["dense"].spec.parallel))
    return runs


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_resume_is_exact(name: str, several: dict[str, Run], resumed: dict[str, Run]) -> None:
    run, whole = resumed[name], several[name]
    assert run.code == 0, run.stderr
    assert state(run, "load") == state(whole, "save")
    steps, expected = run.file.steps(), whole.file.steps()
    assert sorted(steps) == list(range(SAVED + 1, STEPS + 1))
    for number, step in steps.items():
        wanted = expected[number]
        assert (step.loss_hex, step.grad_norm_hex) == (wanted.loss_hex, wanted.grad_norm_hex)
        assert (step.lr, step.tokens_sha256) == (wanted.lr, wanted.tokens_sha256)
    assert state(run, "end") == state(whole, "end")
    for control in ("optimizer-dropped", "data-cursor-dropped"):
        file = records.rank_file(Path(run.spec.run_dir), 0, f"control-{control}")
        wrong = records.read_file(file).steps()
        assert any(s.loss_hex != expected[n].loss_hex for n, s in wrong.items())


def test_one_step_tensor_for_all_is_seen(several: dict[str, Run], resumed: dict[str, Run]) -> None:
    """Silent in Megatron: the first loss is right. The gate wants every loss to the last bit."""
    wrong, right = resumed["shared"].file.steps(), several["dp2-distributed"].file.steps()
    assert wrong[SAVED + 1].loss_hex == right[SAVED + 1].loss_hex
    assert abs(wrong[SAVED + 2].loss - right[SAVED + 2].loss) > 1e-4
    assert (
        state(resumed["shared"], "end")["optimizer_step"]
        != (state(several["dp2-distributed"], "end")["optimizer_step"])
    )


def test_another_layout_reads_the_checkpoint(
    several: dict[str, Run], resumed: dict[str, Run]
) -> None:
    run, whole = resumed["vpp2-to-one"], several["vpp2"]
    assert run.code == 0, run.stderr
    loaded, saved = state(run, "load"), state(whole, "save")
    for part in ("params", "exp_avg", "exp_avg_sq", "optimizer_step", "lr", "weight_decay"):
        assert loaded[part] == saved[part]
    for number, step in run.file.steps().items():
        assert step.loss == pytest.approx(whole.file.steps()[number].loss, abs=PARITY)


@pytest.mark.parametrize(
    ("model_type", "ranks", "layout", "error", "named"),
    [
        ("qwen3", 2, {"cp_size": 2}, CannotJudgeError, "context parallel"),
        ("qwen3", 2, {"tp_size": 2, "sequence_parallel": True}, CannotJudgeError, "sequence"),
        ("qwen3_moe", 2, {"tp_size": 2}, CannotJudgeError, "experts under tensor parallel"),
        ("qwen3", 3, {"tp_size": 2}, UsageError, "tp_size"),
        ("qwen3", 8, {"tp_size": 8}, UsageError, "tp_size"),
        ("qwen3", 2, {"ep_size": 2}, UsageError, "ep_size"),
        ("qwen3", 2, {"vpp_size": 2}, UsageError, "vpp_size"),
        ("qwen3_moe", 2, {"ep_size": 2, "moe_dispatcher": "flex"}, UsageError, "moe_dispatcher"),
        ("qwen3", 1, {"recompute": "some"}, UsageError, "recompute"),
        ("qwen3", 8, {}, UsageError, "global batch"),
    ],
)
def test_layouts_that_are_refused(
    tmp_path: Path, model_type: str, ranks: int, layout: Any, error: Any, named: str
) -> None:
    spec = tiny.with_layout(base(tmp_path, model_type), "refused", ranks, **layout)
    with pytest.raises(error) as refused:
        limits.check(spec)
    assert named in str(refused.value) + str(refused.value.__dict__)
