"""The comparing process as a whole, with the real oracle on random weights."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from certify.records import Comparison, End, Event, read_run
from certify.runspec import CompareSpec, read_compare_spec, write_compare_spec
from reference_runs.oracle import Oracle
from runner import compare, evidence
from tests.runner.small_moe import HF_CONFIG

pytestmark = pytest.mark.torch


def random_weights(folder: Path) -> dict[str, torch.Tensor]:
    hidden, inner, experts = 32, 16, 4
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (96, hidden),
        "lm_head.weight": (96, hidden),
        "model.norm.weight": (hidden,),
    }
    for layer in range(2):
        at = f"model.layers.{layer}."
        shapes |= {
            at + "input_layernorm.weight": (hidden,),
            at + "post_attention_layernorm.weight": (hidden,),
            at + "self_attn.q_proj.weight": (32, hidden),
            at + "self_attn.k_proj.weight": (16, hidden),
            at + "self_attn.v_proj.weight": (16, hidden),
            at + "self_attn.o_proj.weight": (hidden, 32),
            at + "self_attn.q_norm.weight": (8,),
            at + "self_attn.k_norm.weight": (8,),
            at + "mlp.gate.weight": (experts, hidden),
        }
        for expert in range(experts):
            shapes[f"{at}mlp.experts.{expert}.gate_proj.weight"] = (inner, hidden)
            shapes[f"{at}mlp.experts.{expert}.up_proj.weight"] = (inner, hidden)
            shapes[f"{at}mlp.experts.{expert}.down_proj.weight"] = (hidden, inner)
    generator = torch.Generator().manual_seed(3)
    weights = {
        name: torch.randn(shape, generator=generator) * (0.2 if len(shape) > 1 else 1.0)
        for name, shape in shapes.items()
    }
    folder.mkdir(parents=True)
    save_file(weights, str(folder / "model.safetensors"))
    return weights


@pytest.fixture
def campaign(tmp_path: Path) -> CompareSpec:
    """Both sides hold the oracle's own answers, rounded to float32."""
    weights = random_weights(tmp_path / "weights")
    rng = np.random.default_rng(0)
    samples = rng.integers(0, 96, (6, 17)).astype(np.int32)
    np.save(tmp_path / "probe.npy", samples)
    config = dict(HF_CONFIG)
    tokens = torch.from_numpy(samples.astype(np.int64))
    output = Oracle(config, weights).forward(tokens[:, :-1])
    logits = output.logits.flatten(0, 1).float()
    statistics = evidence.position_statistics(logits, tokens[:, 1:].flatten())
    index = evidence.probe_row_index(len(logits), 40)
    probe = evidence.Probe(
        **{name: value.numpy() for name, value in statistics.items()},
        row_index=index,
        rows=logits.numpy()[index],
        topk={at: ids.numpy() for at, ids in output.topk.items()},
        topk_gap={at: gap.numpy() for at, gap in output.topk_gap.items()},
    )
    gradients = {name: torch.randn_like(value) for name, value in weights.items()}
    for side in ("candidate", "reference"):
        run = tmp_path / side
        evidence.write_probe(run, probe)
        evidence.write_tensors(run, evidence.GRADIENTS, gradients)
        stepped = {name: value - 1e-3 * gradients[name] for name, value in weights.items()}
        evidence.write_tensors(run, evidence.PARAMETERS, stepped)
        log = evidence.RoutingLog([0, 1])
        for step in (1, 2):
            ids = np.stack([output.topk[0].numpy(), output.topk[1].numpy()])
            log.append(step, ids, np.full(ids.shape[:2], 0.1, dtype=np.float32))
        log.write(run)
    return CompareSpec(
        run_id="c-compare",
        campaign_id="c",
        run_dir=str(tmp_path / "compare"),
        candidate_dir=str(tmp_path / "candidate"),
        reference_dir=str(tmp_path / "reference"),
        weights_dir=str(tmp_path / "weights"),
        probe_file=str(tmp_path / "probe.npy"),
        hf_config=config,
    )


def test_records_of_a_whole_comparison(campaign: CompareSpec) -> None:
    compare.compare(campaign)
    (file,) = read_run(Path(campaign.run_dir))
    assert file.header.role == "compare"
    found = {one.gate: one for one in file.of(Comparison)}
    assert list(found) == ["forward-parity", "backward-parity", "first-update", "routing"]
    ahead = found["forward-parity"]
    assert ahead.values["positions"] == 96
    assert ahead.values["loss_rel_diff"] == 0
    assert ahead.values["logits_max_error_candidate"] < 1e-6  # type: ignore[operator]
    assert ahead.values["routing_disagreements"] == 0
    assert set(ahead.classes) == {"layer.0", "layer.1"}
    assert found["backward-parity"].values["error"] == 0
    assert found["backward-parity"].values["rolled_error_min"] > 0.5  # type: ignore[operator]
    assert found["first-update"].values["cosine"] == pytest.approx(1)
    assert found["routing"].values["steps_agreeing"] == 2
    for gate, artefact in (
        ("forward-parity", evidence.PROBE),
        ("backward-parity", evidence.GRADIENTS),
        ("first-update", evidence.PARAMETERS),
        ("routing", evidence.ROUTING),
    ):
        for side in ("candidate", "reference"):
            path = Path(campaign.candidate_dir).parent / side / "evidence" / artefact
            assert found[gate].inputs[f"{side}/{artefact}"] == evidence.file_sha256(path)
    end = file.last(End)
    assert end is not None
    assert end.status == "completed"


def test_perturbed_weight_shows_against_the_oracle(campaign: CompareSpec) -> None:
    """The oracle's weights are perturbed: both sides are then equally wrong, and it says so."""
    path = Path(campaign.weights_dir) / "model.safetensors"
    weights = load_file(str(path))
    weights["lm_head.weight"] = weights["lm_head.weight"] * 1.01
    save_file(weights, str(path))
    compare.compare(campaign)
    values = read_run(Path(campaign.run_dir))[0].of(Comparison)[0].values
    assert values["loss_rel_diff"] == 0
    relative = values["logits_rms_error_reference"] / values["logits_rms_oracle"]  # type: ignore
    assert relative == pytest.approx(0.01 / 1.01, rel=1e-3)


def test_missing_evidence_makes_an_event_in_place_of_its_comparison(campaign: CompareSpec) -> None:
    (Path(campaign.candidate_dir) / "evidence" / evidence.GRADIENTS).unlink()
    (Path(campaign.reference_dir) / "evidence" / evidence.ROUTING).unlink()
    compare.compare(campaign)
    (file,) = read_run(Path(campaign.run_dir))
    assert [one.gate for one in file.of(Comparison)] == ["forward-parity", "first-update"]
    missing = [(e.name, e.detail["gate"], e.detail["side"]) for e in file.of(Event)]
    assert missing == [
        ("evidence_missing", "backward-parity", "candidate"),
        ("evidence_missing", "routing", "reference"),
    ]


def test_model_without_oracle_is_compared_without_it(campaign: CompareSpec) -> None:
    config = {**campaign.hf_config, "model_type": "unheard_of", "num_experts": 0}
    compare.compare(dataclasses.replace(campaign, hf_config=config))
    (file,) = read_run(Path(campaign.run_dir))
    assert [event.name for event in file.of(Event)] == ["oracle_unavailable"]
    found = {one.gate: one for one in file.of(Comparison)}
    assert found["forward-parity"].values["top1_near_ties"] is None
    assert "routing" not in found  # a dense model has none, and that is no missing evidence


def test_command_line_and_failure_record(
    campaign: CompareSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "COMPARE.json"
    write_compare_spec(campaign, file)
    assert read_compare_spec(file) == campaign
    assert compare.main([str(file)]) == 0
    assert compare.main([]) == 2
    (tmp_path / "probe.npy").write_bytes(b"no array")
    assert compare.main([str(file)]) == 2
    assert "cannot read the probe" in capsys.readouterr().err
    end = read_run(Path(campaign.run_dir))[0].last(End)
    assert end is not None
    assert end.status == "failed"
    body = json.loads(file.read_text())
    file.write_text(json.dumps({**body, "wieghts_dir": "x"}))
    assert compare.main([str(file)]) == 2
    assert "wieghts_dir" in capsys.readouterr().err
