"""The SARIF output against the shape of SARIF 2.1.0, in which no object takes other keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from certify.cli import main
from certify.cli.recipes_lint import sarif
from certify.recipes.lint import lint_recipe
from certify.recipes.lint.findings import Finding
from certify.recipes.lint.rules import RULES
from certify.recipes.load import load_support_list

# OASIS SARIF 2.1.0: object -> (required, allowed keys that this tool may use), sections 3.13 on.
SHAPE: dict[str, tuple[set[str], set[str]]] = {
    "sarifLog": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"results", "columnKind", "originalUriBaseIds"}),
    "tool": ({"driver"}, {"extensions"}),
    "toolComponent": ({"name"}, {"version", "semanticVersion", "informationUri", "rules"}),
    "reportingDescriptor": (
        {"id"},
        {"name", "shortDescription", "fullDescription", "help", "helpUri", "defaultConfiguration"},
    ),
    "text": ({"text"}, {"markdown"}),
    "reportingConfiguration": (set(), {"level", "enabled", "rank"}),
    "result": ({"message"}, {"ruleId", "ruleIndex", "level", "locations", "kind"}),
    "location": (set(), {"physicalLocation"}),
    "physicalLocation": ({"artifactLocation"}, {"region"}),
    "artifactLocation": ({"uri"}, {"uriBaseId", "index"}),
    "region": ({"startLine"}, {"startColumn", "endLine", "endColumn"}),
}
LEVELS = ("none", "note", "warning", "error")
# RFC 3986: what may stand in a URI reference.
URI = re.compile(r"(?:%[0-9A-Fa-f]{2}|[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=])+")


def shaped(kind: str, thing: Any) -> Any:
    required, allowed = SHAPE[kind]
    assert isinstance(thing, dict), kind
    assert required <= set(thing) <= required | allowed, (kind, set(thing))
    return thing


def text(message: Any) -> None:
    assert isinstance(shaped("text", message)["text"], str)
    assert message["text"]


def check(document: Any) -> int:
    """Number of results. Fails where the document is not of the shape."""
    assert shaped("sarifLog", document)["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = shaped("toolComponent", shaped("tool", shaped("run", run)["tool"])["driver"])
    ids = [shaped("reportingDescriptor", rule)["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        for key in {"shortDescription", "fullDescription", "help"} & set(rule):
            text(rule[key])
        configuration = shaped("reportingConfiguration", rule["defaultConfiguration"])
        assert configuration["level"] in LEVELS
    for result in run["results"]:
        text(shaped("result", result)["message"])
        assert result["level"] in LEVELS
        assert ids[result["ruleIndex"]] == result["ruleId"]
        for location in result["locations"]:
            place = shaped("physicalLocation", shaped("location", location)["physicalLocation"])
            assert URI.fullmatch(shaped("artifactLocation", place["artifactLocation"])["uri"])
            line = shaped("region", place["region"])["startLine"]
            assert isinstance(line, int)
            assert line >= 1
    return len(run["results"])


def test_every_rule_and_every_row() -> None:
    every = [Finding(rule, "x", "a.sh", 1) for rule in RULES]
    assert check(sarif(every)) == len(RULES)
    assert check(sarif([])) == 0
    found = [one for row in load_support_list()[::7] for one in lint_recipe(row.id)]
    assert check(sarif(found)) == len(found) > 20


@pytest.mark.parametrize("name", ["a b.sh", "x%20y.sh", "a#b?.sh", "脚本.sh", "plain.sh"])
def test_a_file_name_is_a_uri_that_leads_back_to_it(name: str) -> None:
    document = sarif([Finding("S14", "", f"examples/{name}", 3)])
    assert check(document) == 1
    place = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert unquote(urlsplit(place["artifactLocation"]["uri"]).path) == f"examples/{name}"


def test_an_absolute_path_has_its_scheme(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "my run.sh"
    script.write_text("python train_fsdp2.py x.yaml | tee log.txt\n", encoding="utf-8")
    main(["recipes", "lint", str(script), "--format", "sarif"])
    document = json.loads(capsys.readouterr().out)
    assert check(document) > 0
    result = document["runs"][0]["results"][0]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == script.as_uri()
