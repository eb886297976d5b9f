"""Documents of seeds that were run apart make one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from certify.cli import main
from certify.errors import UsageError
from certify.selftest.merge import merged, read_document
from certify.selftest.outcome import BITWISE, USUAL, Outcome
from certify.selftest.table import document

RULES = [*USUAL, BITWISE]


def part(seeds: list[int], missed: tuple[int, ...] = (), **facts: Any) -> dict[str, Any]:
    """The document of one fault and its A/A; the fault is missed with some seeds."""
    usual = dict.fromkeys(RULES, False)
    found = []
    for seed in seeds:
        caught = () if seed in missed else ("resume", "finite") if seed == 2 else ("resume",)
        found.append(Outcome(None, "moe", seed, (), (), usual, "PASS", {}))
        expected = ("resume",)
        one = Outcome("lost", "moe", seed, caught, expected, {**usual, BITWISE: True}, None, {})
        found.append(one)
    shared = {
        "date": f"2026-01-{seeds[0]:02d}", "seeds": seeds, "versions": {"torch": "2"},
        "cases": {"moe": "a model"}, "not_here": [], "seconds": 10.0,
    }  # fmt: skip
    return document(found, {**shared, **facts})


def test_parts_give_the_document_of_all_seeds() -> None:
    whole = part([1, 2, 3, 4], missed=(3,))
    found = merged([part([1, 2]), part([3, 4], missed=(3,))], ["a", "b"])
    assert found["rows"] == whole["rows"]
    assert (found["seeds"], found["verdict"]) == ([1, 2, 3, 4], "FAIL")
    assert (found["date"], found["seconds"]) == ("2026-01-03", 20.0)


def test_the_release_rule_counts_all_seeds_together() -> None:
    parts = [part([seed], missed=(7,)) for seed in range(1, 21)]
    assert parts[6]["verdict"] == "FAIL"
    found = merged(parts, [str(n) for n in range(20)])
    assert found["verdict"] == "PASS"
    assert found["rows"][1]["right"] == 19


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (part([1, 5]), "seed 1 is there twice"),
        (part([5], versions={"torch": "3"}), "other versions"),
        ({**part([5]), "rows": part([5])["rows"][:1]}, "other faults"),
    ],
)
def test_what_does_not_belong_together_is_refused(other: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        merged([part([1]), other], ["a", "b"])


def test_files_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seeds in (("a", [1]), ("b", [2])):
        (tmp_path / name).write_text(json.dumps(part(seeds)))
    assert main(["selftest", "--merge", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "| lost | moe | 2/2 | **resume** 2, finite 1 |" in capsys.readouterr().out
    (tmp_path / "c").write_text("[]")
    with pytest.raises(UsageError, match="not the document of a selftest"):
        read_document(tmp_path / "c")
