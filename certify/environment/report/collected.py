"""Output of `certify collector`: headed sections, most of which are formats of their own."""

from __future__ import annotations

import re

from certify.environment.ascend_files import literal_assignments
from certify.environment.report.block import Block, Format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_HEADING = re.compile(r"^=== certify:(\S+)(?: (.{1,300}?))? ===\s*$")
_CHECKOUT = re.compile(r"^checkout: (\S{1,300}) (\S{1,120})\s*$")
TREES = {
    "mindspeed-llm": "mindspeed_llm",
    "mindspeed": "mindspeed_core",
    "fsdpturbo": "fsdpturbo",
    "megatron-lm": "megatron",
}
COMMIT = re.compile(r"[0-9a-f]{40}")


def _read(block: Block, out: StackBuilder) -> tuple[str, str]:
    """The heading alone, or with the body of the kinds that no other format reads."""
    match = _HEADING.match(block.lines[block.start])
    block.end = block.start + 1
    if match is None:
        return "unparsed", "a heading of the collector that is not whole"
    kind, what = match.group(1), match.group(2) or ""
    if kind == "file" and what.endswith("/version.py"):
        _version_file(block, what, out)
    elif kind == "collector":
        _view(block, out)
    elif kind == "kernels":
        _kernels(block, what, out)
    elif kind == "checkouts":
        _checkouts(block, out)
    elif kind == "system":
        _system(block, out)
    return "read", f"{kind} {what}".strip()


def _body(block: Block, limit: int = 400) -> list[str]:
    lines = []
    for line in block.lines[block.start + 1 : block.start + 1 + limit]:
        if line.startswith("=== certify:"):
            break
        lines.append(line)
    return lines


def _version_file(block: Block, path: str, out: StackBuilder) -> None:
    lines = [line for line in _body(block, 6) if "=" in line and line[:1].isidentifier()]
    values = literal_assignments("\n".join(lines))
    source = f"{block.source()} {path}"
    module = path.rsplit("/", 2)[-2]
    version = values.get("__version__")
    if module in ("torch", "torch_npu") and version:
        out.add(module, version, source, "stated", path=path)
        out.packages[module.replace("_", "-")] = version
    git = values.get("git_version")
    if module == "torch_npu" and git:
        out.add("torch_npu_git", git, source, "stated")
    block.end = block.start + 1 + len(lines)


def _view(block: Block, out: StackBuilder) -> None:
    for offset, line in enumerate(_body(block, 5), 1):
        key, _, value = line.partition(": ")
        if key == "view" and value.strip() in ("host", "container"):
            out.add("collected_view", value.strip(), block.source(offset), "stated")


def _kernels(block: Block, tree: str, out: StackBuilder) -> None:
    """The chips that CANN's tree has operators for; ``none``: no ops package at all."""
    for offset, line in enumerate(_body(block, 3), 1):
        chips = [word for word in line.split() if word.startswith("ascend")][:20]
        if chips:
            out.add("cann_ops_chips", " ".join(chips), block.source(offset), "stated", path=tree)
        elif line.strip() == "none":
            out.signal(
                "kernels-absent", f"{tree} has no ops package", block.source(offset), path=tree
            )


def _system(block: Block, out: StackBuilder) -> None:
    for offset, line in enumerate(_body(block, 20), 1):
        if line.startswith("libstdc++:"):
            number = re.search(r"\.so\.6\.0\.(\d+)", line)
            if number:
                out.add("libstdcxx", f"3.4.{number.group(1)}", block.source(offset), "stated")


def _checkouts(block: Block, out: StackBuilder) -> None:
    """``checkout: /path branch-or-commit``."""
    for offset, line in enumerate(_body(block, 60), 1):
        match = _CHECKOUT.match(line)
        if match is None:
            continue
        path, head = match.groups()
        parts = [part.lower() for part in path.split("/") if part.lower() in TREES]
        if parts:
            version = f"commit {head[:12]}" if COMMIT.fullmatch(head) else head
            out.add(TREES[parts[-1]], version, block.source(offset), "stated", path=path)


def _read_abi(block: Block, out: StackBuilder) -> tuple[str, str]:
    block.end = block.start + 1
    flag = block.lines[block.start].strip()[-1]
    out.add("torch_abi", flag, block.source(), "stated")
    return "read", ""


def _read_backend(block: Block, out: StackBuilder) -> tuple[str, str]:
    block.end = block.start + 1
    if "triton-ascend" in out.packages:
        out.signal(
            "triton-files-missing", "no triton/backends/ascend", block.source(), count="1",
            path="triton/backends/ascend",
        )  # fmt: skip
    return "read", ""


COLLECTED = Format(lambda line: line.startswith("=== certify:"), _read)
TORCH_ABI = Format(
    lambda line: (
        "_GLIBCXX_USE_CXX11_ABI=" in line and line.strip()[-1:] in ("0", "1") and len(line) < 80
    ),
    _read_abi,
)
TRITON_BACKEND = Format(lambda line: line.startswith("triton: no backends/ascend"), _read_backend)
