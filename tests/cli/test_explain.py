"""``certify explain`` as a command: every kind of topic, both languages, near matches."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import certify.criteria
from certify.cli import main
from certify.criteria.explained import gate_ids
from certify.criteria.load import load_criteria
from certify.explain import explain, topics
from matrices.load import load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(certify.criteria.__file__).parent


@pytest.fixture(autouse=True)
def _english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["explain", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_variable_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "HCCL_CONNECT_TIMEOUT")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "HCCL_CONNECT_TIMEOUT (variable)"
    assert any(line.split() == ["default", "120"] for line in lines)
    assert any(line.startswith("  values") and "120 to 7200 s" in line for line in lines)
    assert any(line.startswith("  conflicts") for line in lines)
    assert any(line.startswith("  set by") for line in lines)


@pytest.mark.parametrize(
    ("topic", "kind", "word"),
    [
        ("torch-npu-cann", "rule", "post level"),
        ("hccl_connect_timeout", "variable", "connections"),
        ("HCCL_CONNECT_TIMEOUT=60", "variable", "connections"),
        ("expandable_segments", "variable", "fragmentation"),
        ("TRAINING_BACKEND", "variable", "FSDP2"),
        ("EI0006", "error code", "not made in time"),
        ("ERR00100", "error code", "ACL"),
        ("ERR02200", "error code", "HCCL"),
        ("507033", "error code", "could not be opened"),
        ("-8020", "error code", "another container"),
        ("8005", "error code", "container"),
        ("HCCL error 9", "error code", "timeout"),
        ("EJ9999", "error code", "Internal error"),
        ("E89999", "error code", "Internal error"),
        ("torch_npu-0014", "claim", "8.3.RC1"),
        ("mindspeed_core-0011", "claim", "9.0.0"),
        ("910B4", "chip", "A2"),
        ("Ascend950PR", "chip", "950"),
        ("c-15", "conflict", "Triton-Ascend"),
        ("worker loss", "gate", "heartbeat"),
        ("loss_curve", "gate", "90% interval"),
    ],
)
def test_every_kind_of_topic(topic: str, kind: str, word: str) -> None:
    found = explain(topic, load())
    assert found is not None
    assert found.kind == kind
    assert word in found.meaning


def test_chinese_texts(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "EI0006", "--lang", "zh")
    assert "建链" in out


def test_candidate_rules_are_named() -> None:
    found = explain("500001", load())
    assert found is not None
    assert found.rules == ("numpy", "cann-python-deps", "container-devices")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "-8020", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "certify.explain/1"
    assert found["topic"] == "-8020"
    assert found["rules"] == ["container-devices"]


def test_every_listed_topic_is_explained_in_both_languages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = call(capsys)
    assert code == 0
    assert out.splitlines() == topics()
    matrix = load()
    for name in topics():
        if name.startswith("ERR"):
            # Parts of the composed codes of torch_npu, which are explained together.
            continue
        for lang in ("en", "zh"):
            found = explain(name, matrix, lang)
            assert found is not None, name
            assert found.meaning, name


def test_near_matches(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "HCCL_CONECT_TIMEOUT")
    assert (code, out) == (2, "")
    assert "did you mean: HCCL_CONNECT_TIMEOUT" in err
    code, _, err = call(capsys, "???")
    assert code == 2
    assert "certify explain lists the topics" in err


def test_the_page_is_chinese_under_a_chinese_locale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    _, out, _ = call(capsys, "HCCL_CONNECT_TIMEOUT")
    assert out.splitlines()[0] == "HCCL_CONNECT_TIMEOUT (环境变量)"
    assert any(line.split() == ["默认值", "120"] for line in out.splitlines())
    _, out, _ = call(capsys, "HCCL_CONNECT_TIMEOUT", "--lang", "en")
    assert out.startswith("HCCL_CONNECT_TIMEOUT (variable)")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("HCCL_ASYNC_ERROR_HANDLING", "TORCH_HCCL_ASYNC_ERROR_HANDLING"),
        ("TORCH_NPU_DISABLED_WARNING", "TORCH_NPU_WARNING_DISABLE"),
        ("LCCL_DETERMINISTIC", "HCCL_DETERMINISTIC"),
        ("ACL_OP_DEBUG_LEVEL", "debugging"),
    ],
)
def test_older_names_and_companions_are_explained(name: str, word: str) -> None:
    found = explain(name, load())
    assert found is not None
    assert word in found.meaning


def test_memory_and_dies_of_a_chip() -> None:
    four, nine = explain("ascend910b4", load()), explain("Ascend910_9362", load())
    assert four is not None
    assert nine is not None
    assert four.facts["memory mb"] == "32768"
    assert (nine.facts["memory mb"], nine.facts["dies"]) == ("65536", "2")


def test_a_gate_says_rule_numbers_reasons_and_public_cases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = call(capsys, "backward-parity", "--json")
    found = json.loads(out)
    assert (code, found["kind"]) == (0, "gate")
    facts = found["facts"]
    limit = facts["limit relative-error (fp32)"]
    assert limit.startswith("0.0001 relative: ")
    row = next(
        r for r in load_criteria().thresholds
        if (r.gate, r.name, r.precision) == ("backward-parity", "relative-error", "fp32")
    )  # fmt: skip
    assert row.reason in limit
    assert row.source in limit
    assert facts["scale tiny"] == "required"
    known = [name for name in facts if name.startswith("case ")]
    assert all("https://github.com/" in facts[name] for name in known)
    assert known


def test_every_gate_has_texts_of_its_own_in_both_languages() -> None:
    texts = tomllib.loads((FOLDER / "explained.toml").read_text("utf-8"))
    assert list(texts["gate"]) == list(gate_ids())
    matrix = load()
    for name in gate_ids():
        english, chinese = (explain(name, matrix, lang) for lang in ("en", "zh"))
        assert english is not None
        assert chinese is not None
        assert not has_chinese(english.meaning + english.facts["a FAIL means"])
        assert has_chinese(chinese.meaning)
        assert has_chinese(chinese.facts["a FAIL means"])
        assert len(english.facts) == len(chinese.facts)
        for case in texts["gate"][name]["cases"]:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", case["ref"])
            assert not has_chinese(case["en"])
            assert has_chinese(case["zh"])


def has_chinese(text: str) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in text)


def test_the_page_of_a_gate_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "resume", "--lang", "zh")
    assert out.splitlines()[0] == "resume (判据)"
    assert any(line.startswith("  不合格通常意味着") for line in out.splitlines())
    assert any(line.startswith("  限值 save-points (tiny)") for line in out.splitlines())
    assert any(line.startswith("  公开案例 ") for line in out.splitlines())
