"""``certify recipes lint``: findings of recipes, scripts and YAML."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from certify import __version__
from certify.cli.recipes import SCHEMA
from certify.errors import EXIT_FAIL, EXIT_PASS, UsageError
from certify.recipes.lint.findings import Finding, at_least
from certify.recipes.lint.rules import RULES

if TYPE_CHECKING:
    import argparse

_SARIF_LEVEL = {"error": "error", "warning": "warning", "info": "note"}
_SUFFIXES = (".sh", ".yaml", ".yml")


def _is_path(target: str) -> bool:
    return "/" in target or target.endswith(_SUFFIXES) or Path(target).is_dir()


def _lint_folder(folder: Path, root: Path | None) -> tuple[list[Finding], int]:
    """Findings of every training script below a folder; a YAML counts with its script."""
    from certify.cli.recipes_import import companions
    from certify.recipes.importers import import_file
    from certify.recipes.lint import lint_imported

    every = [
        import_file(path, (), root)
        for path in sorted(folder.rglob("*"))
        if path.suffix in _SUFFIXES and path.is_file()
    ]
    named = companions(every)
    findings: list[Finding] = []
    count = 0
    for one in every:
        trains = one.refused is None or (one.launch is not None and one.launch.meant)
        if trains and one.path not in named:
            findings += lint_imported(one)
            count += 1
    return findings, count


def _lint_path(target: str) -> tuple[list[Finding], int]:
    from certify.recipes.importers.text import find_root
    from certify.recipes.lint import lint_path

    path = Path(target)
    if not path.exists():
        raise UsageError("no such file or folder", where=target)
    if path.is_dir():
        return _lint_folder(path, find_root(path / "x"))
    imported, findings = lint_path(path)
    if imported.refused and imported.raw is None and not findings:
        raise UsageError(
            f"nothing to lint: {imported.refused}", where=target, expected="a training script"
        )
    return findings, 1


def _collect(targets: list[str]) -> tuple[list[Finding], int]:
    from certify.recipes.lint import lint_recipe
    from certify.recipes.load import load_support_list, resolve_name
    from certify.recipes.poc import find_script
    from certify.recipes.variants import find_variant

    if not targets:
        targets = [row.id for row in load_support_list()]
    findings: list[Finding] = []
    count = 0
    for target in targets:
        if _is_path(target):
            found, number = _lint_path(target)
            findings += found
            count += number
        else:
            own = find_script(target) or find_variant(target)
            recipe_id = own.id if own else resolve_name(target).row.id
            findings += lint_recipe(recipe_id)
            count += 1
    return findings, count


def _uri(file: str) -> str:
    """A file as SARIF wants it: a URI reference, absolute ones with their scheme."""
    return Path(file).as_uri() if Path(file).is_absolute() else quote(file, safe="/@:+,=~!$&'()*;")


def sarif(findings: list[Finding]) -> dict[str, Any]:
    """The findings as a SARIF 2.1.0 document."""
    used = sorted({finding.rule for finding in findings})
    rules = []
    for name in used:
        rule: dict[str, Any] = {
            "id": name,
            "shortDescription": {"text": RULES[name].title},
            "defaultConfiguration": {"level": _SARIF_LEVEL[RULES[name].severity]},
        }
        if RULES[name].source:
            rule["help"] = {"text": f"Stated in {RULES[name].source}"}
        rules.append(rule)
    results = [
        {
            "ruleId": finding.rule,
            "ruleIndex": used.index(finding.rule),
            "level": _SARIF_LEVEL[finding.severity],
            "message": {"text": f"{finding.title}: {finding.found}".removesuffix(": ")},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(finding.file)},
                        "region": {"startLine": finding.line},
                    }
                }
            ],
        }
        for finding in findings
    ]
    driver = {"name": "certify recipes lint", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _print_text(findings: list[Finding], count: int, every: list[Finding]) -> None:
    for finding in findings:
        found = f": {finding.found}" if finding.found else ""
        print(
            f"{finding.file}:{finding.line}: {finding.severity} {finding.rule}"
            f" {finding.title}{found}"
        )
    counts = Counter(finding.severity for finding in every)
    numbers = ", ".join(f"{counts[name]} {name}" for name in ("error", "warning", "info"))
    print(f"{count} linted: {numbers}")


def run(args: argparse.Namespace) -> int:
    """Print findings; exit 1 when one is an error."""
    form = "json" if args.json else args.format
    if args.rules:
        if form == "json":
            print(json.dumps({
                "schema": SCHEMA,
                "rules": [{"rule": name, **vars(rule)} for name, rule in RULES.items()],
            }))  # fmt: skip
        else:
            for name, rule in RULES.items():
                print(f"{name}  {rule.severity:<8} {rule.title}")
        return EXIT_PASS
    every, count = _collect(args.targets)
    wanted = at_least(args.severity)
    findings = [finding for finding in every if finding.severity in wanted]
    if form == "json":
        print(json.dumps({
            "schema": SCHEMA,
            "linted": count,
            "findings": [finding.as_json() for finding in findings],
        }, ensure_ascii=False))  # fmt: skip
    elif form == "sarif":
        print(json.dumps(sarif(findings), ensure_ascii=False))
    else:
        _print_text(findings, count, every)
    return EXIT_FAIL if any(finding.severity == "error" for finding in every) else EXIT_PASS
