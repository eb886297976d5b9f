"""Gradient and update statistics against independent calculations on made-up tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from certify.errors import UsageError
from runner.comparison import tensor_files, tensors
from runner.comparison.classes import parameter_class
from runner.comparison.numbers import ratio, relative_difference

pytestmark = pytest.mark.torch

NAMES = {
    "model.embed_tokens.weight": ((20, 4), "embedding"),
    "model.layers.0.self_attn.q_proj.weight": ((8, 4), "attention"),
    "model.layers.0.self_attn.q_norm.weight": ((4,), "norm"),
    "model.layers.0.mlp.gate.weight": ((3, 4), "router"),
    "model.layers.0.mlp.experts.0.up_proj.weight": ((5, 4), "expert"),
    "model.layers.0.mlp.experts.1.up_proj.weight": ((5, 4), "expert"),
    "model.layers.0.mlp.shared_expert.up_proj.weight": ((5, 4), "shared-expert"),
    "model.layers.1.mlp.up_proj.weight": ((5, 4), "dense-mlp"),
    "model.norm.weight": ((4,), "norm"),
    "lm_head.weight": ((20, 4), "head"),
}


def made_up(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.randn(shape, generator=generator) for n, (shape, _) in NAMES.items()}


def files(path: Path, content: dict[str, torch.Tensor]) -> tensor_files.TensorFiles:
    save_file(content, str(path))
    return tensor_files.TensorFiles([path])


def run_backward(
    folder: Path, candidate: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    with files(folder / "c", candidate) as c, files(folder / "r", reference) as r:
        return tensors.backward(c, r)


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        *[(name, cls) for name, (_, cls) in NAMES.items()],
        ("model.layers.3.mlp.experts.12.gate_proj.weight", "expert"),
        ("model.layers.3.mlp.shared_expert_gate.weight", "shared-expert"),
        ("model.layers.3.mlp.shared_experts.gate_proj.weight", "shared-expert"),
        ("model.layers.3.mlp.gate_proj.weight", "dense-mlp"),
        ("model.layers.3.mlp.gate.e_score_correction_bias", "router"),
        ("model.layers.3.block_sparse_moe.gate.weight", "router"),
        ("model.layers.3.self_attn.kv_a_layernorm.weight", "norm"),
        ("model.layers.3.linear_attn.in_proj.weight", "attention"),
        ("model.layers.3.input_layernorm.weight", "norm"),
        ("model.something_else", "other"),
    ],
)
def test_parameter_classes(name: str, cls: str) -> None:
    assert parameter_class(name) == cls


def test_gradient_errors_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_files, "BLOCK", 8)  # two rows of four at a time
    reference, noise = made_up(1), made_up(2)
    candidate = {name: value + 1e-3 * noise[name] for name, value in reference.items()}
    values, classes = run_backward(tmp_path, candidate, reference)

    def norm(parts: list[torch.Tensor]) -> float:
        return float(torch.cat([part.double().reshape(-1) for part in parts]).norm())

    for cls in {cls for _, cls in NAMES.values()}:
        of_class = [name for name, (_, c) in NAMES.items() if c == cls]
        difference = norm([candidate[n].double() - reference[n].double() for n in of_class])
        found = classes[cls]
        assert found["error"] == pytest.approx(difference / norm([reference[n] for n in of_class]))
        assert found["norm_candidate"] == pytest.approx(norm([candidate[n] for n in of_class]))
        assert found["n_tensors"] == len(of_class)
        rolled = [
            norm([candidate[n].roll(1, 0).double() - reference[n].double()]) / norm([reference[n]])
            for n in of_class
        ]
        assert found["rolled_error_min"] == pytest.approx(min(rolled))
    norms = norm(list(candidate.values())), norm(list(reference.values()))
    assert values["norm_relative_difference"] == pytest.approx(abs(norms[0] - norms[1]) / norms[1])
    assert values["rolled_error_min"] == min(c["rolled_error_min"] for c in classes.values())
    assert values["n_tensors"] == len(NAMES)
    assert values["n_missing"] == values["n_extra"] == values["n_other_shape"] == 0


def test_scaled_experts_show_in_their_class_only(tmp_path: Path) -> None:
    reference = made_up(1)
    candidate = {n: v * 2 if ".experts." in n else v.clone() for n, v in reference.items()}
    _, classes = run_backward(tmp_path, candidate, reference)
    assert classes["expert"]["error"] == pytest.approx(1.0)
    assert all(v["error"] == 0 for c, v in classes.items() if c != "expert")


def test_tensor_without_counterpart_counts_as_zero(tmp_path: Path) -> None:
    reference, candidate = made_up(1), made_up(1)
    del candidate["lm_head.weight"]
    candidate["model.layers.0.mlp.gate.weight"] = torch.ones(4, 4)
    candidate["lm_head.bias"] = torch.ones(3)
    values, classes = run_backward(tmp_path, candidate, reference)
    assert (values["n_missing"], values["n_extra"], values["n_other_shape"]) == (1, 1, 1)
    assert classes["head"]["error"] > 1
    assert classes["router"]["error"] > 1
    assert classes["embedding"]["error"] == 0


def test_constant_and_zero_tensors_cannot_prove_sensitivity(tmp_path: Path) -> None:
    reference = {"a.norm.weight": torch.ones(4), "b.norm.weight": torch.zeros(4)}
    values, classes = run_backward(tmp_path, dict(reference), reference)
    assert values["rolled_error_min"] is None
    assert classes["norm"]["error"] == 0
    only_zero = {"a.norm.weight": torch.zeros(4)}
    values, classes = run_backward(tmp_path, {"a.norm.weight": torch.ones(4)}, only_zero)
    assert classes["norm"]["error"] == float("inf")


def test_gradients_that_are_not_finite(tmp_path: Path) -> None:
    reference, candidate = made_up(1), made_up(1)
    candidate["lm_head.weight"][0, 0] = float("nan")
    values, classes = run_backward(tmp_path, candidate, reference)
    assert values["nonfinite_candidate"] == 1
    assert values["nonfinite_reference"] == 0
    assert np.isnan(classes["head"]["error"])


def test_errors_against_higher_precision_and_a_second_run(tmp_path: Path) -> None:
    exact = made_up(1)
    rounded = {name: value.bfloat16() for name, value in exact.items()}
    again = {name: value * 1.5 for name, value in exact.items()}
    with (
        files(tmp_path / "c", rounded) as candidate,
        files(tmp_path / "r", {n: v.bfloat16() for n, v in exact.items()}) as reference,
        files(tmp_path / "e", exact) as higher,
        files(tmp_path / "a", again) as second,
    ):
        _, classes = tensors.backward(candidate, reference, higher, second)
    for found in classes.values():
        assert found["error"] == 0
        assert 1e-4 < found["reference_error"] < 1e-2  # type: ignore[operator]
        assert found["candidate_error"] == found["reference_error"]
        assert found["again_error"] == pytest.approx(0.5, rel=0.02)


def test_first_update_by_hand(tmp_path: Path) -> None:
    initial, step, noise = made_up(1), made_up(2), made_up(3)
    reference = {n: v + 1e-2 * step[n] for n, v in initial.items()}
    candidate = {n: v + 1e-2 * (step[n] + 0.3 * noise[n]) for n, v in initial.items()}
    with (
        files(tmp_path / "c", candidate) as c,
        files(tmp_path / "r", reference) as r,
        files(tmp_path / "i", initial) as i,
    ):
        values, classes = tensors.first_update(c, r, i)
    for cls in {cls for _, cls in NAMES.values()}:
        of_class = [name for name, (_, k) in NAMES.items() if k == cls]

        def delta(side: dict[str, torch.Tensor], names: list[str] = of_class) -> Any:
            parts = [(side[n].double() - initial[n].double()).reshape(-1) for n in names]
            return torch.cat(parts).numpy()

        ours, theirs = delta(candidate), delta(reference)
        cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
        assert classes[cls]["cosine"] == pytest.approx(cosine, rel=1e-9)
        assert classes[cls]["norm_reference"] == pytest.approx(np.linalg.norm(theirs))
        assert classes[cls]["cosine_min"] <= classes[cls]["cosine"] + 1e-12  # type: ignore
    assert values["n_without_initial"] == 0
    assert 0.9 < values["cosine"] < 0.999  # type: ignore[operator]


def test_update_in_the_wrong_direction_or_missing(tmp_path: Path) -> None:
    initial, step = made_up(1), made_up(2)
    reference = {n: v + step[n] for n, v in initial.items()}
    candidate = {n: v.clone() for n, v in reference.items()}
    candidate["lm_head.weight"] = initial["lm_head.weight"] - step["lm_head.weight"]
    candidate["model.embed_tokens.weight"] = initial["model.embed_tokens.weight"].clone()
    candidate["extra.weight"] = reference["extra.weight"] = torch.ones(2)
    with (
        files(tmp_path / "c", candidate) as c,
        files(tmp_path / "r", reference) as r,
        files(tmp_path / "i", initial) as i,
    ):
        values, classes = tensors.first_update(c, r, i)
    assert classes["head"]["cosine"] == pytest.approx(-1)
    assert classes["embedding"]["cosine"] == 0
    assert classes["router"]["cosine"] == pytest.approx(1)
    assert values["n_without_initial"] == 1


def test_broken_tensor_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"broken")
    with (
        pytest.raises(UsageError, match="cannot read tensors"),
        tensor_files.TensorFiles([tmp_path / "x"]),
    ):
        pass


def test_small_arithmetic() -> None:
    assert ratio(0.0, 0.0) == 0
    assert ratio(1.0, 0.0) == float("inf")
    assert np.isnan(ratio(float("nan"), 0.0))
    assert relative_difference(3.0, -2.0) == 2.5
