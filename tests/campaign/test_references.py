"""The cache of references: found whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from certify.campaign import references


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "reference"
    (folder / "records").mkdir(parents=True)
    (folder / "evidence").mkdir()
    (folder / "records" / "rank-00000.jsonl").write_text('{"kind": "header"}\n')
    (folder / "evidence" / "probe.safetensors").write_bytes(bytes(range(256)))
    (folder / "logs").mkdir()
    (folder / "logs" / "output.log").write_text("not kept\n")
    return folder


def test_the_key_depends_on_every_part_and_not_on_order() -> None:
    parts = {"a": 1, "b": {"c": [1, 2]}}
    same = {"b": {"c": [1, 2]}, "a": 1}
    assert references.reference_key(parts) == references.reference_key(same)
    assert references.reference_key(parts) != references.reference_key({**parts, "a": 2})


def test_store_find_restore(tmp_path: Path, run: Path) -> None:
    cache = tmp_path / "cache"
    assert references.find(cache, "k") is None
    references.store(cache, "k", {"reference": run})
    entry = references.find(cache, "k")
    assert entry == cache / "k"
    target = tmp_path / "campaign" / "run"
    assert references.restore(entry, "reference", target)
    probe = "evidence/probe.safetensors"
    assert (target / probe).read_bytes() == (run / probe).read_bytes()
    assert not (target / "logs").exists()
    assert not references.restore(entry, "reference-again", tmp_path / "other")
    assert [p.name for p in cache.iterdir()] == ["k"]  # no staging folder is left


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest"])
def test_a_damaged_entry_counts_as_absent_and_is_replaced(
    tmp_path: Path, run: Path, damage: str
) -> None:
    cache = tmp_path / "cache"
    references.store(cache, "k", {"reference": run})
    probe = cache / "k" / "reference" / "evidence" / "probe.safetensors"
    content = probe.read_bytes()
    probe.unlink()
    if damage == "flip":
        probe.write_bytes(content[:-1] + b"\x00")
    elif damage == "cut":
        probe.write_bytes(content[:100])
    elif damage == "manifest":
        probe.write_bytes(content)
        (cache / "k" / references.MANIFEST).write_text("{")
    assert references.find(cache, "k") is None
    references.store(cache, "k", {"reference": run})
    assert references.find(cache, "k") is not None


def test_an_empty_manifest_is_no_entry(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / references.MANIFEST).write_text(json.dumps({}))
    assert references.find(tmp_path, "k") is None


def test_a_campaigns_copy_does_not_reach_the_cache(tmp_path: Path, run: Path) -> None:
    cache = tmp_path / "cache"
    references.store(cache, "k", {"reference": run})
    target = tmp_path / "campaign" / "run"
    assert references.restore(cache / "k", "reference", target)
    (target / "records" / "rank-00000.jsonl").write_text("changed")
    (run / "records" / "rank-00000.jsonl").write_text("changed too")
    assert references.find(cache, "k") is not None
