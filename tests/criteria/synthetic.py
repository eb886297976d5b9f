"""A campaign that passes, made of records that a real one would write, and ways to spoil it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from certify import records
from certify.criteria.evidence import Evidence, Run
from certify.criteria.judge import judge, judge_gate
from certify.criteria.load import load_criteria
from certify.criteria.outcome import GateResult, Verdict
from certify.criteria.plan import Plan, parse_plan
from certify.records import (
    Collective,
    Comparison,
    Component,
    End,
    Environment,
    Header,
    Modules,
    Record,
    RecordFile,
    State,
    Step,
    Topology,
    Writer,
)

STEPS, SAVE, RESUMED, CONTROL_STEPS = 200, 100, 50, 5
WEIGHTS = "aa" * 32
TRAINED = ("candidate", "candidate-again", "reference", "reference-again")
EFFECTIVE = {
    "optimizer": {"beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1, "clip_grad": 1.0},
    "model": {"num_layers": 3, "aux_loss_coef": 0.001, "aux_loss_formula": "megatron"},
}
# part -> (class, module, package), by side.
PARTS = {
    "candidate": {
        "optimizer": ("AdamW", "torch.optim.adamw", "torch"),
        "scheduler": ("LearningRate", "runner.optim", "runner"),
    },
    "reference": {
        "optimizer": ("FP32Optimizer", "megatron.core.optimizer.optimizer", "megatron"),
        "scheduler": (
            "OptimizerParamScheduler",
            "megatron.core.optimizer_param_scheduler",
            "megatron",
        ),
    },
}
STACK = {"deterministic_algorithms": True, "cpu_capability": "AVX2"}
MODELS = {
    "candidate": ("transformers", "transformers.models.qwen3_moe.modeling_qwen3_moe", "Qwen3Moe"),
    "reference": ("megatron", "megatron.core.models.gpt.gpt_model", "GPTModel"),
}


# Building 1,300 records takes longer than copying them.
_BUILT: dict[tuple[bool, int, int], tuple[Any, Any]] = {}


def digest(*what: object) -> str:
    """A digest of anything."""
    return hashlib.sha256(repr(what).encode()).hexdigest()


def side(phase: str) -> str:
    """The side of a phase."""
    return "reference" if phase.startswith("reference") else "candidate"


def rate(step: int) -> float:
    """The planned learning rate."""
    return 1e-3 * step / STEPS


def with_values(step: Step, *, loss: float | None = None, grad_norm: float | None = None) -> Step:
    """The step with other values, decimal and hex alike."""
    loss = step.loss if loss is None else loss
    grad_norm = step.grad_norm if grad_norm is None else grad_norm
    return dataclasses.replace(
        step,
        loss=loss,
        loss_hex=loss.hex(),
        grad_norm=grad_norm,
        grad_norm_hex=grad_norm.hex(),
    )


class Campaign:
    """runs: phase -> rank -> records; controls: name -> rank -> records; plan: its JSON."""

    def __init__(self, *, moe: bool = True, world: int = 2, steps: int = STEPS) -> None:
        self.world, self.moe, self.steps = world, moe, steps
        self.runs: dict[str, dict[int, list[Record]]] = {}
        self.controls: dict[str, dict[int, list[Record]]] = {}
        self.plan = self._plan()
        noise = random.Random(7)
        self.base = [6.0 - 2.0 * n / steps + 0.05 * noise.gauss(0, 1) for n in range(steps)]
        self.rounding = [2e-7 * noise.gauss(0, 1) for _ in range(steps)]
        key = (moe, world, steps)
        if key not in _BUILT:
            for phase in TRAINED:
                self._add_training(phase)
            self._add_resume()
            self._add_comparisons()
            _BUILT[key] = self.runs, self.controls
        self.runs, self.controls = map(_copied, _BUILT[key])

    # ---- building

    def _plan(self) -> dict[str, Any]:
        criteria = load_criteria()
        phases = (*TRAINED, "resume", "compare")
        return {
            "schema": "certify.campaign-plan/1",
            "campaign_id": "c1",
            "recipe_id": "r1",
            "scale": "tiny",
            "stage": "pretrain",
            "device": "cpu",
            "precision": "fp32",
            "moe": self.moe,
            "criteria": {"version": criteria.version, "sha256": criteria.sha256},
            "runs": {phase: f"c1-{phase}" for phase in phases},
            "inject": None,
            "sides": {
                "candidate": {"backend": "fsdp2", "world_size": self.world},
                "reference": {"backend": "mcore", "world_size": 1},
            },
            "expected": {
                "weights_digest": WEIGHTS,
                "steps": [self._planned(n) for n in range(1, self.steps + 1)],
                "effective": {**EFFECTIVE["optimizer"], **EFFECTIVE["model"]},
            },
            "resume": {
                "save_step": SAVE,
                "steps": RESUMED,
                "save_point": "epoch-boundary",
                "controls": ["optimizer-dropped", "data-cursor-dropped"],
            },
        }

    def _planned(self, n: int) -> dict[str, Any]:
        return {
            "step": n,
            "batch": n - 1,
            "lr": rate(n),
            "tokens": 512,
            "supervised_tokens": 512,
            "tokens_sha256": digest("tokens", n),
            "mask_sha256": digest("mask", n),
        }

    def header(self, phase: str, rank: int) -> Header:
        """Header of a rank; every run has a pid and a start of its own."""
        backend = "mcore" if side(phase) == "reference" else "fsdp2"
        world = 1 if side(phase) == "reference" else self.world
        number = sorted((*TRAINED, "resume", "compare")).index(phase)
        return Header(
            f"c1-{phase}", side(phase), backend, rank, world, 100 * number + rank, 1e9 + number
        )

    def step(self, phase: str, n: int) -> Step:
        """Step n as a correct run records it."""
        base = self.base[n - 1]
        loss = base * (1 + self.rounding[n - 1]) if side(phase) == "candidate" else base
        planned = self._planned(n)
        return Step(
            loss=loss,
            loss_hex=loss.hex(),
            grad_norm=1.0 + 1.0 / n,
            grad_norm_hex=(1.0 + 1.0 / n).hex(),
            # No two runs measure the same times.
            step_time_s=0.1 + 1e-6 * (1 + (*TRAINED, "resume").index(phase)),
            peak_bytes=1000,
            aux_loss=1.5 if self.moe else None,
            routing_sha256=digest("routing", n) if self.moe else None,
            **planned,
        )

    def _preamble(self, phase: str, rank: int) -> list[Record]:
        package, module, name = MODELS[side(phase)]
        world = 1 if side(phase) == "reference" else self.world
        parts = {"model": (name, module, package), **PARTS[side(phase)]}
        tested = [Collective("all_reduce_sum", "world", "float32", True)] if world > 1 else []
        return [
            Environment("3.11.7", "Linux", "cpu", "CPU", {"torch": "2.13.0"}, STACK, {}),
            Topology(world, {"world": list(range(world))}, "gloo"),
            *(
                Component(p, cls, mod, "file.py", pkg, "1.0", digest(cls), EFFECTIVE.get(p, {}))
                for p, (cls, mod, pkg) in parts.items()
            ),
            Modules(
                loaded=["torch", package],
                trained_classes=[f"{module}.{name}", "torch.nn.modules.linear.Linear"],
            ),
            *tested,
        ]

    def state(self, at: str, step: int) -> State:
        """The state of a run; save and load agree because the digests name only the step."""
        parts = ["exp_avg", "exp_avg_sq", "optimizer_step", "lr", "weight_decay", "data_cursor"]
        parts += [f"rng.rank-{rank}" for rank in range(self.world)]
        digests = {"params": WEIGHTS if step == 0 else digest("params", step)}
        return State(at, step, digests | {part: digest(part, step) for part in parts})

    def _add_training(self, phase: str) -> None:
        ranks = 1 if side(phase) == "reference" else self.world
        for rank in range(ranks):
            body: list[Record] = [self.header(phase, rank), *self._preamble(phase, rank)]
            body.append(self.state("init", 0))
            for n in range(1, self.steps + 1):
                body.append(self.step(phase, n))
                if n == SAVE and phase == "candidate":
                    body.append(self.state("save", n))
            body.append(End("completed", self.steps, 20.0, 20.0))
            self.runs.setdefault(phase, {})[rank] = body

    def _add_resume(self) -> None:
        last = min(SAVE + RESUMED, self.steps)
        for rank in range(self.world):
            header = self.header("resume", rank)
            body: list[Record] = [header, *self._preamble("resume", rank)]
            body.append(self.state("load", SAVE))
            body += [self.step("resume", n) for n in range(SAVE + 1, last + 1)]
            body.append(End("completed", RESUMED, 5.0, 5.0))
            self.runs.setdefault("resume", {})[rank] = body
            window = range(SAVE + 1, min(SAVE + CONTROL_STEPS, self.steps) + 1)
            steps = [self.step("resume", n) for n in window]
            # Without moments the first loss is right, the next ones are not.
            dropped = [
                with_values(s, loss=s.loss * (1.004 if i else 1)) for i, s in enumerate(steps)
            ]
            cursor = [
                with_values(
                    dataclasses.replace(s, tokens_sha256=digest("tokens", i + 1), batch=i),
                    loss=s.loss * 1.1,
                )
                for i, s in enumerate(steps)
            ]
            self.controls.setdefault("optimizer-dropped", {})[rank] = [header, *dropped]
            self.controls.setdefault("data-cursor-dropped", {})[rank] = [header, *cursor]

    def _add_comparisons(self) -> None:
        header = Header("c1-compare", "compare", "fsdp2", 0, 1, 1, 2e9)
        gates = ["forward-parity", "backward-parity", "first-update", *["routing"] * self.moe]
        comparisons = [self._comparison(gate) for gate in gates]
        self.runs["compare"] = {0: [header, *comparisons, End("completed", 0, 5.0, 5.0)]}

    def _comparison(self, gate: str) -> Comparison:
        classes = ["embedding", "attention", "norm", "head"]
        classes += ["router", "expert"] if self.moe else ["dense-mlp"]
        complete = {"n_tensors": 30, "n_missing": 0, "n_extra": 0, "n_other_shape": 0}
        values: dict[str, dict[str, float | int | None]] = {
            "forward-parity": {
                "positions": 20480,
                "rows": 4096,
                "rows_compared": 4096,
                "loss_rel_diff": 1e-7,
                "logits_rms_oracle": 1.0,
                "logits_max_error_candidate": 1.1e-6,
                "logits_max_error_reference": 1e-6,
                "logits_rms_error_candidate": 1.1e-7,
                "logits_rms_error_reference": 1e-7,
                "kl_mean": 1e-13,
                "top1_disagreements": 2,
                "top1_near_ties": 2,
                "routing_sets": 61440,
                "routing_disagreements": 1,
                "routing_near_ties": 1,
            },
            "backward-parity": {
                **complete,
                "norm_candidate": 2.0,
                "norm_reference": 2.0,
                "norm_relative_difference": 1e-6,
                "rolled_error_min": 0.5,
            },
            "first-update": {**complete, "n_without_initial": 0, "cosine": 0.99999},
            "routing": {
                "first_difference_step": None,
                "steps_compared": self.steps,
                "differing": 0,
                "compared": self.steps * 1536,
            },
        }
        each = {
            "backward-parity": {"error": 2e-6, "norm_candidate": 1.0, "norm_reference": 1.0},
            "first-update": {"cosine": 0.99999},
        }.get(gate)
        named = {name: dict(each) for name in classes} if each else {}
        return Comparison(gate, values[gate], named, {})  # type: ignore[arg-type]

    # ---- spoiling

    def edit(
        self,
        phase: str,
        select: Callable[[Record], bool],
        change: Callable[[Any], Record | None],
        ranks: tuple[int, ...] | None = None,
    ) -> Campaign:
        """Replace the selected records of a phase (of some ranks); None drops the record."""
        hits = 0
        for rank, body in self.runs[phase].items():
            if ranks is not None and rank not in ranks:
                continue
            kept: list[Record] = []
            for record in body:
                if select(record):
                    hits += 1
                    new = change(record)
                    kept += [] if new is None else [new]
                else:
                    kept.append(record)
            self.runs[phase][rank] = kept
        assert hits, "the mutation changed nothing"
        return self

    def edit_step(
        self, phase: str, n: int, ranks: tuple[int, ...] | None = None, **to: Any
    ) -> Campaign:
        """Replace fields of step n; loss and grad_norm set their hex form too, unless given."""
        for name in ("loss", "grad_norm"):
            if name in to:
                to.setdefault(f"{name}_hex", float(to[name]).hex())
        return self.edit(
            phase,
            lambda r: isinstance(r, Step) and r.step == n,
            lambda r: dataclasses.replace(r, **to),
            ranks,
        )

    def scale_loss(self, phase: str, factor: Callable[[int], float]) -> Campaign:
        """Multiply every loss of a phase by a factor of the step."""
        return self.edit(
            phase,
            lambda r: isinstance(r, Step),
            lambda r: with_values(r, loss=r.loss * factor(r.step)),
        )

    def drop(self, phase: str, select: Callable[[Record], bool]) -> Campaign:
        """Leave records out."""
        return self.edit(phase, select, lambda _: None)

    def drop_kind(self, phase: str, kind: type) -> Campaign:
        """Leave all records of a kind out."""
        return self.drop(phase, lambda r: isinstance(r, kind))

    def drop_run(self, phase: str) -> Campaign:
        """As if a phase had never run."""
        del self.runs[phase]
        return self

    def compared(self, gate: str, cls: str | None = None, **to: Any) -> Campaign:
        """Replace numbers of a comparison (of one class or layer of it)."""

        def change(record: Comparison) -> Comparison:
            if cls is None:
                return dataclasses.replace(record, values={**record.values, **to})
            classes = {**record.classes, cls: {**record.classes[cls], **to}}
            return dataclasses.replace(record, classes=classes)

        return self.edit("compare", lambda r: isinstance(r, Comparison) and r.gate == gate, change)

    def state_part(self, phase: str, at: str, part: str, value: str | None) -> Campaign:
        """Replace a digest of the state at a point, or leave it out."""

        def change(record: State) -> State:
            kept = {k: v for k, v in record.digests.items() if k != part}
            return dataclasses.replace(record, digests=kept | ({part: value} if value else {}))

        return self.edit(phase, lambda r: isinstance(r, State) and r.at == at, change)

    def effective(self, phase: str, part: str, **to: Any) -> Campaign:
        """Replace effective values of a component."""
        return self.edit(
            phase,
            lambda r: isinstance(r, Component) and r.part == part,
            lambda r: dataclasses.replace(r, effective={**r.effective, **to}),
        )

    def control(self, name: str, change: Callable[[Step], Step]) -> Campaign:
        """Change every step of a negative control."""
        for rank, body in self.controls[name].items():
            self.controls[name][rank] = [change(r) if isinstance(r, Step) else r for r in body]
        return self

    def without_fault(self, name: str) -> Campaign:
        """A negative control that goes on as if nothing were missing."""
        return self.control(name, lambda s: self.step("resume", s.step))

    # ---- judging

    def parsed(self) -> Plan:
        """The plan as the judge reads it."""
        return _parsed(json.dumps(self.plan))

    def evidence(self) -> Evidence:
        """The records as the judge reads them, without the detour over files."""
        runs = {}
        for phase, body in self.runs.items():
            controls = {k: _files(v) for k, v in self.controls.items()} if phase == "resume" else {}
            runs[phase] = Run(f"c1-{phase}", _files(body), controls)
        return Evidence(runs)

    def judge(self) -> Verdict:
        """The verdict."""
        return judge(self.parsed(), self.evidence(), load_criteria())

    def gate(self, name: str) -> GateResult:
        """The result of one gate."""
        return judge_gate(name, self.parsed(), self.evidence(), load_criteria())

    def write(self, folder: Path) -> Path:
        """Write the campaign folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plan.json").write_text(json.dumps(self.plan), encoding="utf-8")
        for phase, body in self.runs.items():
            self._write_stream(folder / "runs" / self.plan["runs"][phase], body, "rank")
        for name, body in self.controls.items() if "resume" in self.runs else ():
            where = folder / "runs" / self.plan["runs"]["resume"]
            self._write_stream(where, body, f"control-{name}")
        return folder

    def _write_stream(self, run: Path, body: dict[int, list[Record]], stream: str) -> None:
        for rank, (header, *rest) in body.items():
            assert isinstance(header, Header)
            writer = Writer(records.rank_file(run, rank, stream), header)
            for record in rest:
                writer.write(record)
            writer.close()


def _copied(streams: dict[str, dict[int, list[Record]]]) -> dict[str, dict[int, list[Record]]]:
    """Lists of their own; the records themselves are immutable."""
    return {k: {rank: list(body) for rank, body in v.items()} for k, v in streams.items()}


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Plan:
    return parse_plan(json.loads(text), "plan.json")


def _files(body: dict[int, list[Record]]) -> tuple[RecordFile, ...]:
    files = []
    for rank, found in sorted(body.items()):
        header = found[0]
        assert isinstance(header, Header)
        files.append(RecordFile(Path(f"rank-{rank:05d}.jsonl"), header, tuple(found), False))
    return tuple(files)
