"""The document as markdown for an issue: short tables, details folded."""

from __future__ import annotations

from typing import Any

from certify.environment.render.words import word


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def markdown(document: dict[str, Any], lang: str) -> str:
    """Ready to be pasted into an issue."""
    lines = [f"**certify check-env: {document['verdict']}**", ""]
    if document["findings"]:
        head = [word(key, lang) for key in ("error", "found", "expected", "source")]
        lines += [f"| {' | '.join(['', 'rule', *head[1:]])} |", "|---|---|---|---|---|"]
        for finding in document["findings"]:
            cells = [
                word(finding["severity"], lang),
                f"`{finding['rule']}`",
                finding["found"],
                finding["expected"],
                finding["source"],
            ]
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        lines.append("")
    lines += ["<details><summary>stack</summary>", "", "| | | |", "|---|---|---|"]
    for name, row in document["stack"].items():
        lines.append(f"| {name} | {_cell(row['version'])} | {_cell(row['source'])} |")
    lines += ["", "</details>"]
    for item in document["missing"]:
        lines.append(f"- {word('missing', lang)}: {_cell(item['what'])}: `{item['command']}`")
    resolution = document["resolution"]
    if resolution["changes"]:
        lines += ["", f"{word('change', lang)}:", "```sh", *resolution["commands"], "```"]
    return "\n".join(lines)
