"""The document as text for people: verdict first, then findings with their chain, what is missing,
and the smallest change."""

from __future__ import annotations

from certify.environment.render.words import word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Components worth a line in the overview, in the order in which they build on each other.
_SHOWN = (
    "product", "chip", "devices", "driver", "firmware", "cann", "cann_ops", "nnal", "torch",
    "torch_npu", "torchvision", "triton_ascend", "triton", "mindspeed_llm", "mindspeed_core",
    "megatron", "fsdpturbo", "transformers", "numpy", "vllm", "vllm_ascend", "verl", "deepspeed",
    "cuda", "cuda_driver", "python", "arch", "os", "glibc", "image",
)  # fmt: skip
_MARKS = {"error": "x", "warning": "!", "info": "-"}


def text(document: dict[str, Any], lang: str, notes: tuple[str, ...] = ()) -> str:
    """The whole answer. notes: lines shown under the verdict (what a name was taken for)."""
    lines = [f"{word('verdict', lang)}: {word(document['verdict'], lang)}"]
    lines += [f"  {note}" for note in notes]
    lines += list(_overview(document, lang))
    hints = []
    for finding in document["findings"]:
        lines += ["", *_finding(finding, lang)]
        if finding["severity"] != "info":
            hints.append(finding["hint"])
    lines += list(_missing(document, lang))
    lines += list(_resolution(document["resolution"], lang))
    return "\n".join(lines)


def _overview(document: dict[str, Any], lang: str) -> Iterator[str]:
    stack = document["stack"]
    shown = [name for name in _SHOWN if name in stack]
    if not shown:
        return
    yield ""
    yield f"{word('stack', lang)}:"
    width = max(map(len, shown))
    for name in shown:
        row = stack[name]
        doubt = "" if row["confidence"] == "certain" else f", {row['confidence']}"
        yield f"  {name:<{width}}  {row['version']}  ({row['source']}{doubt})"


def _finding(finding: dict[str, Any], lang: str) -> Iterator[str]:
    severity = finding["severity"]
    yield f"{_MARKS[severity]} {word(severity, lang)} [{finding['rule']}]"
    yield f"  {word('found', lang)}: {finding['found']}"
    if finding["expected"]:
        yield f"  {word('expected', lang)}: {finding['expected']}"
    if finding["source"]:
        yield f"  {word('source', lang)}: {finding['source']}"
    for place, reason in enumerate(finding["why"]):
        label = f"{word('why', lang)}:" if not place else " " * (len(word("why", lang)) + 1)
        yield f"  {label} {reason}"
    if finding["hint"] and severity != "info":
        yield ""
        yield f"  {word('hint', lang)}: {finding['hint']}"


def _missing(document: dict[str, Any], lang: str) -> Iterator[str]:
    items = document["missing"]
    if not items:
        return
    yield ""
    yield f"{word('missing', lang)}:"
    commands = dict.fromkeys(item["command"] for item in items)
    for command in commands:
        for item in items:
            if item["command"] == command:
                why = f" ({item['why']})" if item["why"] else ""
                yield f"  {item['what']}{why}"
        yield f"    $ {command}"
    if len(commands) > 1:
        yield f"  {word('collector', lang)}"


def _resolution(found: dict[str, Any], lang: str) -> Iterator[str]:
    if not found["changes"]:
        if found.get("blocked"):
            yield ""
            yield f"{word('change', lang)}: {word('blocked', lang)}: {', '.join(found['blocked'])}"
        return
    yield ""
    yield f"{word('change', lang)} ({word('cost', lang)} {found['cost']}, {found['level']}):"
    for change in found["changes"]:
        start = change["found"] or word("install", lang)
        yield f"  {change['name']}: {start} -> {change['target']}"
        if change["source"]:
            yield f"    {word('source', lang)}: {change['source']}"
        if change["stops_jobs"]:
            yield f"    {word('stops', lang)}"
    for command in found["commands"]:
        yield f"    $ {command}"
    stays = [f"{name} ({how})" for name, how in found.get("stays", {}).items()]
    if stays:
        yield f"  {word('stays', lang)}: {', '.join(stays)}"
