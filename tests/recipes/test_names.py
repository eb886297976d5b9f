"""Short names of recipes."""

from __future__ import annotations

import pytest

from certify.errors import UsageError
from certify.recipes.names import resolve_name


@pytest.mark.parametrize(
    ("name", "backend", "expected"),
    [
        ("qwen3-235b", "fsdp2", "qwen3-235b-a22b-4k-fsdp2"),
        ("QWEN3_235B", "mcore", "qwen3-235b-a22b-4k-mcore"),
        ("qwen3-235b-a22b-4k-fsdp2", None, "qwen3-235b-a22b-4k-fsdp2"),
        ("Qwen3-0.6B", None, "qwen3-0p6b-4k-mcore"),
        ("qwen2-7b-32k", None, "qwen2-7b-32k-mcore"),
        ("gpt-oss", None, "gpt-oss-moe-20b-4k-fsdp2"),
        ("mamba3", "fsdp2", "mamba3-4k-mcore"),
        ("step3p5", "fsdp2", "step3p5-flash-moe-196b-4k-fsdp2"),
        ("minimax", None, "minimax-m2p7-moe-229b-4k-fsdp2"),
    ],
)
def test_a_name_means_one_row(name: str, backend: str | None, expected: str) -> None:
    assert resolve_name(name, backend).row.id == expected


def test_without_a_backend_mcore_is_taken_and_said() -> None:
    match = resolve_name("qwen3-235b")
    assert match.row.id == "qwen3-235b-a22b-4k-mcore"
    assert match.said == (
        "took backend mcore (mcore is Pass, fsdp2 is Test); --backend fsdp2 for the other"
    )
    assert resolve_name("qwen3-235b", "mcore").said is None


def test_a_row_listed_under_another_backend_than_its_script_says_so() -> None:
    said = resolve_name("mamba3", "fsdp2").said
    assert said == "mamba3-4k-mcore is listed as Mcore, but its script runs fsdp2"


@pytest.mark.parametrize(
    ("name", "backend", "parts"),
    [
        ("qwen3", None, ["fits 14 recipes", "qwen3-0p6b-4k-mcore"]),
        ("qwen3", "fsdp2", ["fits 4 recipes", "qwen3-235b-a22b-4k-fsdp2"]),
        ("qwen2-7b", None, ["qwen2-7b-4k-mcore, qwen2-7b-32k-mcore"]),
        ("qwen3-8b", "fsdp2", ["no published row", "--backend mcore"]),
        ("qwen3-325b", None, ["did you mean", "qwen3-235b"]),
        ("llamma3", None, ["did you mean", "llama3"]),
        ("xyzzy", None, ["certify recipes list"]),
        ("", None, ["no recipe named ''"]),
        ("grpo-qwen25", None, ["MindSpeed-RL"]),
        ("qwen2.5-vl-7b", None, ["MindSpeed-MM"]),
        ("internvl3", None, ["MindSpeed-MM"]),
        ("wan2.1", None, ["MindSpeed-MM"]),
        ("ppo2-llama", None, ["MindSpeed-RL"]),
    ],
)
def test_other_names_say_what_there_is(name: str, backend: str | None, parts: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_name(name, backend)
    for part in parts:
        assert part in str(caught.value)
