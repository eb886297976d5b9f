"""The merged answer of several nodes as text."""

from __future__ import annotations

from typing import Any

from certify.environment.nodes import fold
from certify.environment.render.words import word


def nodes_text(answer: dict[str, Any], lang: str) -> str:
    """Verdict of the cluster and of its nodes, outliers by name, findings folded."""
    nodes = answer["nodes"]
    lines = [f"{word('cluster', lang)}: {word(answer['verdict'], lang)}"]
    by_verdict: dict[str, list[str]] = {}
    for name, verdict in nodes.items():
        by_verdict.setdefault(verdict, []).append(name)
    lines += [f"  {fold(names)}: {verdict}" for verdict, names in by_verdict.items()]
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
