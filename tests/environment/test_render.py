"""Catalogues in both languages, and the forms made from one document."""

from __future__ import annotations

import re
import string
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from certify.environment.render import catalog_en, catalog_zh
from certify.environment.render.document import document
from certify.environment.render.junit import junit
from certify.environment.render.markdown import markdown
from certify.environment.render.sentences import command_for
from certify.environment.render.text import text
from certify.environment.render.words import WORDS
from certify.environment.report import read_report
from certify.environment.signals import SIGNALS
from certify.resolver.verdict import judge
from matrices.load import Matrix, load

CERTIFY = Path(catalog_en.__file__).parents[2]
PASTED = 'torch==2.6.0\ntorch-npu==2.8.0\nCANN 8.3.RC1 | <tag> & "quotes"\ntoken=hunter2222\n'


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


@pytest.fixture(scope="module")
def shown(matrix: Matrix) -> dict[str, Any]:
    stack = read_report(PASTED)
    return document(stack, judge(stack, matrix), matrix, "en")


def test_both_languages_have_the_same_texts() -> None:
    assert set(catalog_en.TEXTS) == set(catalog_zh.TEXTS)
    for english, chinese in WORDS.values():
        assert english
        assert chinese


def test_both_languages_name_the_same_values() -> None:
    def names(words: tuple[str, ...]) -> set[str]:
        return {f for word in words for _, f, _, _ in string.Formatter().parse(word) if f}

    for key, (found, expected, _) in catalog_en.TEXTS.items():
        chinese = names(catalog_zh.TEXTS[key])
        assert chinese <= names((found, expected)) | {"text"}, key


def test_every_text_a_rule_may_use_is_in_the_catalogue() -> None:
    used = set()
    for path in sorted((CERTIFY / "resolver/rules").glob("*.py")):
        source = path.read_text("utf-8")
        used |= set(re.findall(r'"((?:signal|recipe|variable|missing)-[a-z0-9-]+)"', source))
        used |= set(re.findall(r'(?:INFO|WARNING|ERROR|\)), "[a-z_]+", "([a-z0-9-]+)"', source))
    assert used - set(catalog_en.TEXTS) - {"recipe-pins"} == set()
    assert len(used) > 40
    handled = {name for name, kind in SIGNALS.items() if kind.decisive or kind.candidates}
    absent = {name for name in handled if f"signal-{name}" not in catalog_en.TEXTS}
    silent = {"library-other", "dependency-conflict", "wheel-not-for-here", "autoload-trace"}
    assert absent <= silent | {"megatron-path"}


def test_the_document_has_the_keys_of_the_interface(shown: dict[str, Any]) -> None:
    assert list(shown) == ["schema", "verdict", "stack", "findings", "missing", "resolution"]
    assert shown["schema"] == "certify.check-env/1"
    for row in shown["stack"].values():
        assert list(row) == ["version", "source", "confidence"]
    for finding in shown["findings"]:
        assert list(finding) == [
            "rule", "severity", "component", "found", "expected", "source", "why", "hint",
        ]  # fmt: skip
    assert {"changes", "commands", "row"} <= set(shown["resolution"])


def test_the_hint_of_a_pair_is_the_command_of_the_smallest_change(shown: dict[str, Any]) -> None:
    pair = next(f for f in shown["findings"] if f["rule"] == "torch-pair")
    assert pair["hint"] in " && ".join(shown["resolution"]["commands"])
    assert "==2." in pair["hint"]


def test_text_has_the_verdict_first_and_hints_after_a_blank_line(shown: dict[str, Any]) -> None:
    lines = text(shown, "en").splitlines()
    assert lines[0].startswith("verdict: incompatible")
    place = next(n for n, line in enumerate(lines) if line.strip().startswith("hint:"))
    assert lines[place - 1] == ""
    assert any(line.startswith("what is missing") for line in lines)
    assert text(shown, "zh").startswith("结论: incompatible")


def test_junit_is_xml_with_failures_and_skips(shown: dict[str, Any]) -> None:
    suite = ET.fromstring(junit(shown)).find("testsuite")
    assert suite is not None
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure")) >= 1
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))


def test_markdown_escapes_bars(shown: dict[str, Any]) -> None:
    shown = {**shown, "findings": [{**shown["findings"][0], "found": "a|b\nc"}]}
    assert "a\\|b c" in markdown(shown, "en")


@pytest.mark.parametrize(
    ("component", "version", "command"),
    [
        ("transformers", ">=4.51,<4.58", 'pip install "transformers>=4.51,<4.58"'),
        ("numpy", "<2.0", 'pip install "numpy<2.0"'),
        ("mindspeed_core", "26.1.0_core_r0.12.1", "git -C MindSpeed checkout 26.1.0_core_r0.12.1"),
        ("cann", "9.1.0", "certify resolve --to cann=9.1.0"),
        ("cann", ">=9.0.0", "certify resolve"),
        ("deepspeed", "0.15.4", "pip install deepspeed==0.15.4"),
    ],
)
def test_commands(component: str, version: str, command: str) -> None:
    assert command_for(component, version, load()) == command


def test_hints_name_only_packages_that_pip_knows() -> None:
    matrix = load()
    for component, row in matrix.components.items():
        for version in ("1.2.3", ">=1.2,<2"):
            line = command_for(component, version, matrix)
            if "pip install" in line:
                words = re.findall(r"[ \"]([\w-]+)(?=[=<>])", line)
                known = {*row["packages"].split(","), "torch_npu"}
                assert {word for word in words if not word.startswith("-")} <= known, component
                assert row["layer"] == "package"
