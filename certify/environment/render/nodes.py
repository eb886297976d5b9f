"""The merged answer of several nodes as text, markdown and JUnit XML."""

from __future__ import annotations

from typing import Any

from certify.environment.nodes import MUST_AGREE, fold
from certify.environment.render.junit import junit
from certify.environment.render.words import word


def nodes_text(answer: dict[str, Any], lang: str) -> str:
    """Verdict of the cluster and of its nodes, outliers by name, findings folded."""
    nodes = answer["nodes"]
    lines = [f"{word('cluster', lang)}: {word(answer['verdict'], lang)}"]
    by_verdict: dict[str, list[str]] = {}
    for name, verdict in nodes.items():
        by_verdict.setdefault(verdict, []).append(name)
    lines += [f"  {fold(names)}: {verdict}" for verdict, names in by_verdict.items()]
    lines += [
        f"  {name}: {word('silent', lang)} ({reason})" for name, reason in answer["silent"].items()
    ]
    lines += ["", f"{word('equal', lang, count=str(len(nodes)))}:"]
    width = max(map(len, answer["equal"]), default=0)
    lines += [f"  {name:<{width}}  {version}" for name, version in answer["equal"].items()]
    if answer["outliers"]:
        lines += ["", f"{word('outliers', lang)}:"]
    for row in answer["outliers"]:
        others = word("others", lang, count=str(row["others_count"]))
        lines.append(
            f"  {row['nodes']}: {row['component']} {row['version']}, {others}: {row['others']}"
        )
    for finding in answer["findings"]:
        if finding["severity"] == "info":
            continue
        lines += [
            "",
            f"{word(finding['severity'], lang)} [{finding['rule']}] {finding['nodes']}",
            f"  {word('found', lang)}: {finding['found']}",
            f"  {word('expected', lang)}: {finding['expected']}",
        ]
        if finding["hint"]:
            lines += ["", f"  {word('hint', lang)}: {finding['hint']}"]
    return "\n".join(lines)


def nodes_junit(answer: dict[str, Any]) -> str:
    """A test suite: one case for each outlier, for each silent node, and for each finding with the
    nodes that have it."""
    rows = [
        {
            "rule": "node-differs",
            "severity": "error" if row["component"] in MUST_AGREE else "warning",
            "component": f"{row['component']} {row['nodes']}",
            "found": f"{row['component']} {row['version']}",
            "expected": f"{row['others']}, as on {row['others_count']} other nodes",
        }
        for row in answer["outliers"]
    ]
    rows += [
        {"rule": "node-silent", "severity": "error", "component": name, "found": reason,
         "expected": "an answer"}
        for name, reason in answer["silent"].items()
    ]  # fmt: skip
    blank = {"why": [], "source": "", "hint": ""}
    findings = [{**row, "component": f"{row['component']} {row['nodes']}"}
                for row in answer["findings"]]  # fmt: skip
    return junit(
        {
            "verdict": answer["verdict"], "missing": [],
            "findings": [*({**blank, **row} for row in rows), *findings],
        }
    )  # fmt: skip


def nodes_markdown(answer: dict[str, Any], lang: str) -> str:
    """Ready to be pasted into an issue: the verdict, then the text as it is."""
    head = f"**certify check-env: {answer['verdict']}** ({len(answer['nodes'])})"
    return "\n".join([head, "", "```text", nodes_text(answer, lang), "```"])
