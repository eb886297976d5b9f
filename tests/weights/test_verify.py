"""A checkpoint folder without a fault passes; each fault is found under its rule."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certify.weights.files import TOKENIZER_LIMIT
from certify.weights.findings import RULES
from certify.weights.shapes import expected_tensors
from certify.weights.verify import Report, verify
from tests.weights.make import QWEN3_MOE, checkpoint, entries, tokenizer_json, write_shard

FIRST = "model-00001-of-00002.safetensors"
SECOND = "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def errors(report: Report) -> list[tuple[str, str, str]]:
    return [(one.rule, one.where, one.found) for one in report.findings if one.severity == "error"]


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    body = json.loads(path.read_text())
    path.write_text(json.dumps(change(body) or body))


def test_a_good_folder(tmp_path: Path) -> None:
    report = verify(checkpoint(tmp_path))
    expected = expected_tensors(QWEN3_MOE)
    assert expected is not None
    assert report.findings == ()
    assert (report.model_type, report.shards, report.tensors) == (
        "qwen3_moe", 2, len(expected.required),
    )  # fmt: skip
    assert (report.vocabulary, report.embedding_rows, report.shapes_checked) == (10, 12, True)
    assert report.file_bytes == sum(one.stat().st_size for one in tmp_path.glob("*.safetensors"))


def test_a_single_file(tmp_path: Path) -> None:
    checkpoint(tmp_path, shards=1)
    (tmp_path / "model-00001-of-00001.safetensors").rename(tmp_path / "model.safetensors")
    (tmp_path / INDEX).unlink()
    assert verify(tmp_path).findings == ()


def drop(path: str) -> Callable[[Path], None]:
    return lambda folder: (folder / path).unlink()


def config(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "config.json", lambda body: body.update(changes))


def cut(folder: Path) -> None:
    path = folder / FIRST
    path.write_bytes(path.read_bytes()[:-5])


def index(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda folder: edit(folder / INDEX, change)


def map_all_to(name: str) -> Callable[[Path], None]:
    return index(lambda body: body["weight_map"].update(dict.fromkeys(body["weight_map"], name)))


def wrong_shape(folder: Path) -> None:
    path, name = folder / FIRST, "model.embed_tokens.weight"
    table = json.loads((folder / INDEX).read_text())["weight_map"]
    expected = expected_tensors(QWEN3_MOE)
    assert expected is not None
    shapes = {one: expected.required[one] for one, place in table.items() if place == FIRST}
    write_shard(path, entries({**shapes, name: (12, 7)}))


def wrong_type(folder: Path) -> None:
    expected = expected_tensors(QWEN3_MOE)
    assert expected is not None
    table = json.loads((folder / INDEX).read_text())["weight_map"]
    shapes = {one: expected.required[one] for one, place in table.items() if place == FIRST}
    write_shard(folder / FIRST, entries(shapes, "F32"))


def link_out(folder: Path) -> None:
    outside = folder.parent / "outside.safetensors"
    (folder / FIRST).rename(outside)
    (folder / FIRST).symlink_to(outside)


def link_nowhere(folder: Path) -> None:
    (folder / FIRST).unlink()
    (folder / FIRST).symlink_to(folder / "gone")


def link_to_itself(folder: Path) -> None:
    (folder / FIRST).unlink()
    (folder / FIRST).symlink_to(folder / FIRST)


def fifo(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")


def only_pickles(folder: Path) -> None:
    for name in (FIRST, SECOND, INDEX):
        (folder / name).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")


def twice(folder: Path) -> None:
    (folder / SECOND).write_bytes((folder / FIRST).read_bytes())


FAULTS: list[tuple[str, Callable[[Path], None], str, str]] = [
    ("missing shard", drop(SECOND), "W01", "1 of 2 shards are missing"),
    ("pickles", only_pickles, "W01", "weights as pickles, which are not read: they can run code"),
    ("stray shard", lambda f: write_shard(f / "model-00009-of-00009.safetensors", {}), "W01",
     "1 shards that the index does not name"),
    ("truncated shard", cut, "W03", "truncated: "),
    ("traversal", map_all_to("../outside.safetensors"), "W02", "not the name of a file in this"),
    ("absolute", map_all_to("/etc/passwd"), "W02", "not the name of a file in this folder"),
    ("nul", map_all_to("a\0b"), "W02", "not the name of a file in this folder"),
    ("surrogate", map_all_to("\ud800"), "W01", "1 of 1 shards are missing"),
    ("long name", map_all_to("x" * 5000), "W01", "1 of 1 shards are missing"),
    ("link out", link_out, "W02", "a link out of the folder"),
    ("link nowhere", link_nowhere, "W03", "a link to a file that is not there"),
    ("link to itself", link_to_itself, "W03", ""),
    ("a pipe", fifo, "W02", "not a regular file"),
    ("a folder", lambda f: ((f / FIRST).unlink(), (f / FIRST).mkdir())[0], "W02",
     "not a regular file"),
    ("tensor not in its shard",
     index(lambda b: b["weight_map"].update({"lm_head.weight": SECOND})
           ), "W04", "1 tensors of the index are not in it: "),
    ("tensor twice", twice, "W04", " tensors lie in more than one shard"),
    ("tensors missing", config(num_hidden_layers=3), "W05", "15 of 48 tensors"),
    ("tensors too many", config(num_hidden_layers=1), "W06",
     "15 tensors that it does not describe"),
    ("wrong shape", wrong_shape, "W07", "[12, 7]"),
    ("experts", config(num_experts=3), "W07", "[2, 8] (and 1 more tensors)"),
    ("heads", config(num_attention_heads=2), "W07", "[16, 8]"),
    ("hidden", config(hidden_size=9), "W07", "[12, 8] (and "),
    ("vocabulary", config(vocab_size=13), "W07", "[12, 8] (and 1 more tensors)"),
    ("wrong type", wrong_type, "W08", " tensors are F32"),
    ("no config", drop("config.json"), "W09", "missing"),
    ("config no JSON", lambda f: (f / "config.json").write_text("{") and None, "W09", "not JSON"),
    ("config a list", lambda f: (f / "config.json").write_text("[]") and None, "W09",
     "not a JSON object"),
    ("config with a bomb", config(num_hidden_layers=2**24), "W09", "more than 200,000 tensors"),
    ("config too deep", lambda f: (f / "config.json").write_text("[" * 100_000) and None, "W09",
     "not JSON"),
    ("no tokenizer", drop("tokenizer.json"), "W10", "no tokenizer file is here"),
    ("tokenizer no JSON", lambda f: (f / "tokenizer.json").write_text("x") and None, "W10",
     "not JSON"),
    ("tokenizer too large",
     lambda f: os.truncate(f / "tokenizer.json", TOKENIZER_LIMIT + 1), "W10", "larger than"),
    ("tokenizer with more ids",
     lambda f: (f / "tokenizer.json").write_text(json.dumps(tokenizer_json(13))) and None,
     "W11", "13 ids"),
    ("index of millions of lists",
     lambda f: (f / INDEX).write_bytes(b"[" + b"[]," * 2_000_001 + b"[]]") and None, "W14",
     "more than 2,000,000 values"),
    ("no weight_map", index(lambda b: {"metadata": {}}), "W14", "no weight_map from tensor"),
    ("weight_map of numbers", index(lambda b: {"weight_map": {"a": 1}}), "W14", "no weight_map"),
    ("empty weight_map", index(lambda b: {"weight_map": {}}), "W14", "its weight_map is empty"),
    ("index no JSON", lambda f: (f / INDEX).write_bytes(b"\xff") and None, "W14", "not UTF-8"),
    ("key twice", lambda f: (f / INDEX).write_text('{"a": 1, "a": 2}') and None, "W14",
     "a JSON object has a key twice"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "rule", "found"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS]
)
def test_each_fault_is_found(
    tmp_path: Path, fault: Callable[[Path], None], rule: str, found: str
) -> None:
    folder = checkpoint(tmp_path / "model")
    fault(folder)
    report = verify(folder)
    there = errors(report)
    assert any(one[0] == rule and found in one[2] for one in there), there
    for finding in report.findings:
        text = "".join((finding.where, finding.found, finding.expected, finding.hint))
        text.encode()
        assert "\0" not in text


def test_every_rule_is_tested() -> None:
    elsewhere = {"W12", "W13"}
    assert {rule for _, _, rule, _ in FAULTS} | elsewhere == set(RULES)


def test_notes_fail_nothing(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    edit(folder / "config.json", lambda body: body.update(model_type="unheard-of"))
    edit(folder / INDEX, lambda body: body["metadata"].update(total_size=1))
    write_shard(folder / "consolidated.safetensors", {})
    (folder / "model.safetensors.incomplete").write_bytes(b"")
    (folder / "tokenizer_config.json").unlink()
    report = verify(folder)
    assert errors(report) == []
    assert [one.rule for one in report.findings] == ["W01", "W01", "W14", "W09", "W10"]
    assert not report.shapes_checked


def test_tied_and_further_layers(tmp_path: Path) -> None:
    """A tied head may be stored or not; layers that predict further tokens are a note."""
    tied = {**QWEN3_MOE, "tie_word_embeddings": True, "num_nextn_predict_layers": 1}
    folder = checkpoint(tmp_path, tied, shards=1)
    assert verify(folder).findings == ()
    expected = expected_tensors(tied)
    assert expected is not None
    more = {"lm_head.weight": (12, 8), "model.layers.2.eh_proj.weight": (8, 16)}
    shard = "model-00001-of-00001.safetensors"
    write_shard(folder / shard, entries({**expected.required, **more}))
    edit(folder / INDEX, lambda b: b["weight_map"].update(dict.fromkeys(more, shard)))
    report = verify(folder)
    assert errors(report) == []
    (note,) = [one for one in report.findings if one.rule == "W06"]
    assert note.where == "model.layers.2.eh_proj.weight"


def test_quantised_weights(tmp_path: Path) -> None:
    """fp8 keeps its shapes and adds scales; other methods pack, so shapes are not checked."""
    folder = checkpoint(tmp_path, shards=1)
    expected = expected_tensors(QWEN3_MOE)
    assert expected is not None
    shard = "model-00001-of-00001.safetensors"
    name = "model.layers.0.self_attn.q_proj.weight_scale_inv"
    write_shard(folder / shard, entries({**expected.required, name: (1, 1)}, "F32"))
    edit(folder / INDEX, lambda b: b["weight_map"].update({name: shard}))
    edit(folder / "config.json", lambda b: b.update(quantization_config={"quant_method": "fp8"}))
    assert errors(verify(folder)) == []
    edit(folder / "config.json", lambda b: b.update(quantization_config={"quant_method": "awq"}))
    report = verify(folder)
    assert errors(report) == []
    assert any("quantised by awq" in one.found for one in report.findings)


def test_the_cache_of_huggingface_hub(tmp_path: Path) -> None:
    """Its snapshots are links into its blobs: those are read, links elsewhere are not."""
    cache = tmp_path / "models--Qwen--Qwen3"
    real = checkpoint(tmp_path / "real")
    snapshot = cache / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for path in real.iterdir():
        path.rename(cache / "blobs" / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    assert verify(snapshot).findings == ()
    (cache / "snapshots").rename(cache / "other")
    assert {rule for rule, *_ in errors(verify(cache / "other" / "abc"))} >= {"W02"}


def test_another_model_than_the_recipe_s(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    assert verify(folder, published={"hidden_size": 8, "rope_theta": 1.0}).findings == ()
    report = verify(folder, published={"hidden_size": 4096, "num_experts": 128})
    assert errors(report) == [
        ("W13", "config.json: hidden_size", "8"),
        ("W13", "config.json: num_experts", "2"),
    ]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=8) | st.sampled_from(sorted(QWEN3_MOE)), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(["config.json", INDEX, "tokenizer.json", "tokenizer_config.json"]), ANY, ANY)
def test_no_content_makes_a_traceback(tmp_path: Path, name: str, body: Any, inner: Any) -> None:
    folder = checkpoint(tmp_path / "model", shards=1)
    key = {"config.json": "num_experts", INDEX: "weight_map"}.get(name, "model")
    for content in (body, {key: inner}, {"model": {"vocab": inner}, "added_tokens": inner}):
        (folder / name).write_text(json.dumps(content))
        for finding in verify(folder).findings:
            "".join((finding.where, finding.found, finding.expected)).encode()
