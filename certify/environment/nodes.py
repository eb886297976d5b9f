"""Several nodes: equal answers folded, outliers named, a verdict for each and for the cluster."""

from __future__ import annotations

import re
from typing import Any

from certify.light import lazy

SCHEMA = "certify.check-env-nodes/1"
# Nodes of one job that differ in these cannot train together.
MUST_AGREE = ("cann", "torch", "torch_npu")
_ORDER = ("incompatible", "unknown", "unverified", "compatible", "reference")
# Components that differ between healthy nodes and mean nothing.
_OWN = ("image", "kernel", "pci_accelerators", "device_nodes")
_RANGE = lazy(r"^(.*?)\[([^\]]*)\](.*)$")
_MAX_NODES = 10_000


def expand(text: str) -> list[str]:
    """``node[01-03,7],other`` as names. Raises ValueError for a range that makes no sense."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        part = part.strip()
        if not part:
            continue
        match = _RANGE.match(part)
        if not match:
            names.append(part)
            continue
        before, ranges, after = match.groups()
        for piece in ranges.split(","):
            low, _, high = piece.partition("-")
            high = high or low
            if not (low.isdigit() and high.isdigit()) or int(high) < int(low):
                raise ValueError(f"{piece!r} is no range")
            if int(high) - int(low) > _MAX_NODES:
                raise ValueError(f"{piece!r} names more than {_MAX_NODES} nodes")
            names += [f"{before}{n:0{len(low)}d}{after}" for n in range(int(low), int(high) + 1)]
    return list(dict.fromkeys(names))


def fold(names: list[str]) -> str:
    """Names as ``node[01-03,07]``; names without a number stay as they are."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in names:
        match = re.match(r"^(.*?)(\d+)$", name)
        if match:
            groups.setdefault((match.group(1), len(match.group(2))), []).append(int(match.group(2)))
        else:
            plain.append(name)
    parts = []
    for (prefix, width), numbers in groups.items():
        runs: list[list[int]] = []
        for number in sorted(numbers):
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        inner = ",".join(
            f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}"
            for low, high in runs
        )
        parts.append(f"{prefix}[{inner}]")
    return ",".join([*parts, *plain])


def merge(
    documents: dict[str, dict[str, Any]], silent: dict[str, str] | None = None
) -> dict[str, Any]:
    """One document of many: node name -> check-env document.

    silent: nodes that gave no answer, with the reason; a good verdict becomes ``unverified``.

    The cluster's verdict is the worst of its nodes, and ``incompatible`` as well when CANN, torch
    or torch_npu differ between them.
    """
    nodes = {name: doc["verdict"] for name, doc in documents.items()}
    equal, outliers = _compare(documents)
    worst = min(nodes.values(), key=_ORDER.index)
    if any(row["component"] in MUST_AGREE for row in outliers):
        worst = "incompatible"
    elif (outliers or silent) and worst in ("reference", "compatible"):
        worst = "unverified"
    return {
        "schema": SCHEMA,
        "verdict": worst,
        "nodes": nodes,
        "silent": dict(silent or {}),
        "equal": equal,
        "outliers": outliers,
        "findings": _findings(documents),
    }


def _compare(
    documents: dict[str, dict[str, Any]],
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    components = sorted({name for doc in documents.values() for name in doc["stack"]})
    equal: dict[str, str] = {}
    outliers: list[dict[str, Any]] = []
    for component in components:
        if component in _OWN:
            continue
        values: dict[str, list[str]] = {}
        for node, doc in documents.items():
            row = doc["stack"].get(component)
            values.setdefault(row["version"] if row else "absent", []).append(node)
        if len(values) == 1:
            equal[component] = next(iter(values))
            continue
        usual = max(values, key=lambda value: (len(values[value]), value != "absent"))
        for value, names in values.items():
            if value != usual:
                outliers.append(
                    {
                        "component": component,
                        "nodes": fold(names),
                        "version": value,
                        "others": usual,
                        "others_count": len(values[usual]),
                    }
                )
    return equal, outliers


def _findings(documents: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings that say the same, once, with the nodes that have them."""
    folded: dict[tuple[str, str, str], tuple[dict[str, Any], list[str]]] = {}
    for node, doc in documents.items():
        for finding in doc["findings"]:
            key = (finding["rule"], finding["severity"], finding["found"])
            folded.setdefault(key, (finding, []))[1].append(node)
    rows = [{**finding, "nodes": fold(names)} for finding, names in folded.values()]
    return sorted(rows, key=lambda row: ("error", "warning", "info").index(row["severity"]))
