"""Several nodes: names expanded and folded, outliers named, verdict of the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from certify.environment.nodes import expand, fold, merge
from certify.environment.render.nodes import nodes_text


def node(verdict: str = "reference", **versions: str) -> dict[str, Any]:
    stack = {
        name: {"version": version, "source": "x", "confidence": "certain"}
        for name, version in {"driver": "25.3.rc1", "cann": "8.3.RC1", **versions}.items()
    }
    return {"verdict": verdict, "stack": stack, "findings": []}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[01-03,7],x", ["node01", "node02", "node03", "node7", "x"]),
        ("a", ["a"]),
        ("n[08-11]-ib", ["n08-ib", "n09-ib", "n10-ib", "n11-ib"]),
        ("", []),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[3-1]", "n[a-b]", "n[0-99999999]"])
def test_expand_refuses_nonsense(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|nodes"):
        expand(text)


def test_fold_is_the_inverse_of_expand() -> None:
    names = [f"node{n:02d}" for n in (1, 2, 3, 7, 12)] + ["login"]
    assert fold(names) == "node[01-03,07,12],login"
    assert expand(fold(names)) == names


def test_an_outlier_is_named_against_the_others() -> None:
    documents = {f"node{n:02d}": node() for n in range(1, 17)}
    documents["node07"] = node(driver="25.2.0")
    answer = merge(documents)
    assert answer["outliers"] == [
        {
            "component": "driver", "nodes": "node[07]", "version": "25.2.0", "others": "25.3.rc1",
            "others_count": 15,
        }
    ]  # fmt: skip
    assert answer["equal"] == {"cann": "8.3.RC1"}
    assert answer["verdict"] == "unverified"
    assert "node[07]: driver 25.2.0, the other 15: 25.3.rc1" in nodes_text(answer, "en")


def test_equal_nodes_keep_their_verdict() -> None:
    assert merge({"a": node(), "b": node()})["verdict"] == "reference"


def test_the_worst_node_decides() -> None:
    answer = merge({"a": node(), "b": node("incompatible")})
    assert (answer["verdict"], answer["nodes"]) == (
        "incompatible",
        {"a": "reference", "b": "incompatible"},
    )


def test_different_cann_between_nodes_cannot_train_together() -> None:
    assert merge({"a": node(), "b": node(cann="8.2.RC1")})["verdict"] == "incompatible"


def test_a_component_that_one_node_lacks_is_an_outlier() -> None:
    documents = {"a": node(nnal="8.3.RC1"), "b": node(nnal="8.3.RC1"), "c": node()}
    assert merge(documents)["outliers"][0]["version"] == "absent"


def test_equal_findings_are_folded() -> None:
    finding = {"rule": "numpy", "severity": "error", "found": "f", "expected": "e", "hint": "h"}
    documents = {f"n{i}": {**node("incompatible"), "findings": [finding]} for i in range(1, 4)}
    answer = merge(documents)
    assert [row["nodes"] for row in answer["findings"]] == ["n[1-3]"]
    assert "错误 [numpy] n[1-3]" in nodes_text(answer, "zh")
