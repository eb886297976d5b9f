"""Preparation: reproducible, whole or not at all, and in agreement with the sampler."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from certify.errors import InfrastructureError, UsageError
from certify.records import batch_digest, root_digest, tensor_digest
from certify.runspec import DataSpec, PrepareSpec, read_prepare_spec, write_prepare_spec
from runner import initial_weights, prepare
from runner.data.batches import Batches
from tests.runner.small_moe import HF_CONFIG

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]


def spec_for(folder: Path, **changes: Any) -> PrepareSpec:
    spec = PrepareSpec(
        out_dir=str(folder / "prepared"),
        hf_config={**HF_CONFIG, "vocab_size": 9, "pad_token_id": 3, "dtype": "bfloat16"},
        weights_seed=11,
        seq_length=32,
        global_batch=8,
        steps=12,
        shuffle_seed=5,
        samples=44,
        probe_positions=300,
    )
    return dataclasses.replace(spec, **changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[PrepareSpec, dict[str, Any]]:
    spec = spec_for(tmp_path_factory.mktemp("prepare"))
    return spec, prepare.prepare(spec)


def test_twice_gives_the_same_bytes(
    made: tuple[PrepareSpec, dict[str, Any]], tmp_path: Path
) -> None:
    spec, first = made
    again = spec_for(tmp_path, cache_dir=str(tmp_path / "cache"))
    second = prepare.prepare(again)
    assert second == first
    for name in [*first["files"], "prepared.json"]:
        one, two = Path(spec.out_dir) / name, Path(again.out_dir) / name
        assert one.read_bytes() == two.read_bytes()
    other = prepare.prepare(dataclasses.replace(again, weights_seed=12))
    assert other["weights_digest"] != first["weights_digest"]
    assert other["digest"] != first["digest"]
    assert other["batches"] == first["batches"]


def test_folder_holds_what_its_record_says(made: tuple[PrepareSpec, dict[str, Any]]) -> None:
    spec, prepared = made
    folder = Path(spec.out_dir)
    assert json.loads((folder / "prepared.json").read_text()) == prepared
    samples, probe = np.load(folder / "samples.npy"), np.load(folder / "probe.npy")
    assert samples.shape == (44, 33)
    assert samples.dtype == probe.dtype == np.int32
    assert probe.shape == (10, 33)
    assert not {row.tobytes() for row in samples} & {row.tobytes() for row in probe}
    assert prepared["n_samples"] == 44
    data = prepared["data"]
    assert data["source"] == "embedded corpus 1"
    assert 0.2 < data["loss_floor_nats"] < 0.6
    assert 5 < data["unigram_entropy_nats"] < np.log(512)


def test_configuration_follows_the_tokenizer(made: tuple[PrepareSpec, dict[str, Any]]) -> None:
    spec, prepared = made
    config = json.loads((Path(spec.out_dir) / "config.json").read_text())
    assert config["vocab_size"] == prepared["vocab_size"] == 512
    assert config["eos_token_id"] == config["bos_token_id"] == 0
    assert config["pad_token_id"] is None
    assert config["torch_dtype"] == "float32"
    assert "dtype" not in config
    assert {k: config[k] for k in HF_CONFIG if k != "vocab_size"} == {
        k: v for k, v in HF_CONFIG.items() if k != "vocab_size"
    }


def test_vocabulary_is_padded_to_a_multiple_of_64() -> None:
    for size, padded in ((512, 512), (513, 576), (1, 64)):
        assert initial_weights.final_config({}, size, 0, False)["vocab_size"] == padded
    assert initial_weights.final_config({"vocab_size": 9}, 512, 0, True)["vocab_size"] == 9


def test_weights_are_published_tensors_of_the_stock_initialisation(
    made: tuple[PrepareSpec, dict[str, Any]],
) -> None:
    spec, prepared = made
    folder = Path(spec.out_dir) / "weights"
    tensors = dict(initial_weights.tensors(folder))
    assert tensors["model.layers.0.mlp.experts.3.gate_proj.weight"].shape == (16, 32)
    assert (tensors["model.norm.weight"] == 1).all()
    assert tensors["model.embed_tokens.weight"].std() == pytest.approx(0.2, rel=0.05)
    digest = root_digest(
        {
            n: tensor_digest("float32", a.shape, a.astype("<f4").tobytes())
            for n, a in tensors.items()
        }
    )
    assert prepared["weights_digest"] == digest
    assert prepared["num_parameters"] == sum(a.size for a in tensors.values())
    assert prepared["model_class"] == "Qwen3MoeForCausalLM"


def test_planned_batches_are_those_that_the_sampler_gives(
    made: tuple[PrepareSpec, dict[str, Any]],
) -> None:
    spec, prepared = made
    data = DataSpec(
        samples_file=str(Path(spec.out_dir) / "samples.npy"),
        n_samples=prepared["n_samples"],
        seq_length=spec.seq_length,
        vocab_size=prepared["vocab_size"],
        shuffle_seed=spec.shuffle_seed,
    )
    batches = Batches(data, spec.global_batch)
    assert len(prepared["batches"]) == spec.steps
    for planned in prepared["batches"]:
        batch = batches.read(planned["batch"])
        assert planned["tokens_sha256"] == batch_digest(batch.token_digests())
        assert planned["mask_sha256"] == batch_digest(batch.mask_digests())
        assert planned["tokens"] == planned["supervised_tokens"] == batch.supervised_tokens == 256
    assert len({planned["tokens_sha256"] for planned in prepared["batches"]}) == spec.steps


def test_own_text_and_tokenizer(
    made: tuple[PrepareSpec, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial_weights, "draw", lambda *_: "none")
    monkeypatch.setattr(initial_weights, "describe", lambda _: ("0", 0, 0))
    text = tmp_path / "own.txt"
    text.write_text("The quick brown fox counts 12 eggs. 狐狸数鸡蛋。\n" * 200, encoding="utf-8")
    spec = spec_for(
        tmp_path,
        data_path=str(text),
        tokenizer_path=str(Path(made[0].out_dir) / "tokenizer.json"),
        samples=4000,
    )
    prepared = prepare.prepare(spec)
    assert prepared["data"]["source"] == "own.txt"
    assert prepared["data"]["loss_floor_nats"] is None
    assert prepared["data"]["documents"] == 1
    assert prepared["tokenizer"]["sha256"] == made[1]["tokenizer"]["sha256"]
    # Less text than wanted: an epoch is a whole number of batches, and epochs repeat.
    assert 8 <= prepared["n_samples"] < 4000
    assert 4000 % prepared["n_samples"] == 0
    with pytest.raises(UsageError, match="too little text") as caught:
        prepare.prepare(dataclasses.replace(spec, probe_positions=10**6))
    assert caught.value.where == str(text)
    with pytest.raises(UsageError, match="gives id"):
        prepare.prepare(dataclasses.replace(spec, keep_vocab_size=True, hf_config={**HF_CONFIG}))


def test_model_that_cannot_be_built_is_explained(tmp_path: Path) -> None:
    for change, what in (
        ({"model_type": "no_such_model"}, "no_such_model"),
        ({"num_attention_heads": "four"}, "cannot build"),
    ):
        with pytest.raises(UsageError, match=what):
            prepare.prepare(spec_for(tmp_path, hf_config={**HF_CONFIG, **change}))
    assert not list(tmp_path.iterdir())


def test_failure_leaves_the_old_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "prepared"
    old.mkdir()
    (old / "prepared.json").write_text("old")

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(initial_weights, "draw", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        prepare.prepare(spec_for(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["prepared"]
    assert (old / "prepared.json").read_text() == "old"
    monkeypatch.setattr(initial_weights, "draw", lambda *_: "none")
    monkeypatch.setattr(initial_weights, "describe", lambda _: ("0", 0, 0))
    prepare.prepare(spec_for(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["prepared"]
    assert (old / "samples.npy").is_file()


def test_killed_preparation_leaves_no_folder_and_the_next_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "PREPARE.json"
    write_prepare_spec(spec_for(tmp_path), file)
    process = subprocess.Popen([sys.executable, "-m", "runner.prepare", str(file)], cwd=ROOT)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".prepared.*.partial/samples.npy")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "prepared").exists()
    assert list(tmp_path.glob(".prepared.*.partial"))
    monkeypatch.setattr(initial_weights, "draw", lambda *_: "none")
    monkeypatch.setattr(initial_weights, "describe", lambda _: ("0", 0, 0))
    prepare.prepare(spec_for(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["PREPARE.json", "prepared"]


def test_command_line(tmp_path: Path) -> None:
    file = tmp_path / "PREPARE.json"
    command = [sys.executable, "-m", "runner.prepare", str(file)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}

    def call() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    missing = call()
    assert missing.returncode == 2
    assert "cannot read the spec" in missing.stderr
    write_prepare_spec(spec_for(tmp_path, data_path=str(tmp_path / "absent.jsonl")), file)
    absent = call()
    assert absent.returncode == 2
    assert absent.stderr.startswith("\nerror: there is no such data")
    assert "Traceback" not in absent.stderr


def test_spec_is_strict(tmp_path: Path) -> None:
    file = tmp_path / "PREPARE.json"
    spec = spec_for(tmp_path)
    write_prepare_spec(spec, file)
    assert read_prepare_spec(file) == spec
    body = json.loads(file.read_text())
    for change, what in (
        ({"seq_lenght": 3}, "unknown key 'seq_lenght'"),
        ({"seq_length": 0}, "seq_length is 0"),
        ({"shuffle_seed": -1}, "shuffle_seed is -1"),
        ({"schema": "other/1"}, "schema 'other/1'"),
        ({"steps": "many"}, "found 'many'"),
    ):
        file.write_text(json.dumps({**body, **change}))
        with pytest.raises(UsageError, match=what):
            read_prepare_spec(file)
    file.write_text("{")
    with pytest.raises(UsageError, match="not JSON"):
        read_prepare_spec(file)


def test_several_paths_are_read_in_order_each_up_to_the_limit(tmp_path: Path) -> None:
    for name in ("one", "two"):
        lines = [json.dumps({"text": f"{name} {number} " * 120}) for number in range(60)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    spec = spec_for(
        tmp_path,
        data_path=str(tmp_path / "one.jsonl"),
        further_data_paths=(str(tmp_path / "two.jsonl"),),
        max_documents=20,
    )
    data = prepare._Data(spec)
    texts = list(data.texts())
    assert [text[:3] for text in texts] == ["one"] * 20 + ["two"] * 20
    assert data.source == "one.jsonl, two.jsonl"
