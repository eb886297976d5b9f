"""Reads pasted text of any mixture into a `Stack`.

`FORMATS` is the registry, in the order in which a line is offered to them; a format may decline a
line. What no format takes is read as free text. Error texts are searched for in the whole report.
Text that looked like a known format and could not be read becomes a section ``unparsed``.
"""

from __future__ import annotations

from certify.environment.builder import StackBuilder
from certify.environment.environment_facts import add_variable_facts
from certify.environment.report import free_text
from certify.environment.report.block import Block, Format
from certify.environment.report.cann_files import CANN_INFO, NNAL_INFO, OS_RELEASE, VERSION_CFG
from certify.environment.report.collected import COLLECTED, TORCH_ABI, TRITON_BACKEND
from certify.environment.report.component_tables import PIPED, SEPARATED
from certify.environment.report.environment_dumps import (
    CANN_HEADING,
    COLLECT_ENV,
    DASHED_ENV,
    LSCPU,
    SGLANG_ENV,
    VERL_DIAGNOSE,
)
from certify.environment.report.git_output import GIT
from certify.environment.report.html_tables import HTML
from certify.environment.report.packages import PIP_FREEZE, PIP_LIST, PIP_SHOW, add_package
from certify.environment.report.shell import DOCKER_RUN, VARIABLES, read_permissions
from certify.environment.report.small_files import (
    ENTRY_POINT,
    UPGRADE_TOOL,
    VERSION_PY,
    WHEEL,
)
from certify.environment.report.tables import LSPCI, NPU_SMI_BOARD, NPU_SMI_MAP, NPU_SMI_TABLE
from certify.environment.report.text import clean, decode, looks_binary, take_lines
from certify.environment.symptoms import find_symptoms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.stack import Stack

FORMATS: dict[str, Format] = {
    "collector": COLLECTED,
    "torch ABI flag": TORCH_ABI,
    "triton backends": TRITON_BACKEND,
    "component table": PIPED,
    "HTML table": HTML,
    "npu-smi info": NPU_SMI_TABLE,
    "npu-smi info -m": NPU_SMI_MAP,
    "npu-smi info -t": NPU_SMI_BOARD,
    "lspci": LSPCI,
    "version.cfg": VERSION_CFG,
    "CANN or driver version file": CANN_INFO,
    "NNAL version.info": NNAL_INFO,
    "os-release": OS_RELEASE,
    "firmware tool": UPGRADE_TOOL,
    "WHEEL": WHEEL,
    "version.py": VERSION_PY,
    "entry points": ENTRY_POINT,
    "git": GIT,
    "docker run": DOCKER_RUN,
    "environment variables": VARIABLES,
    "verl diagnose": VERL_DIAGNOSE,
    "collect_env": COLLECT_ENV,
    "CANN heading": CANN_HEADING,
    "lscpu": LSCPU,
    "sglang check_env": SGLANG_ENV,
    "env lines": DASHED_ENV,
    "pip show": PIP_SHOW,
    "pip freeze": PIP_FREEZE,
    "pip list": PIP_LIST,
    "component columns": SEPARATED,
}
MAX_SECTIONS = 300


def read_report(raw: str | bytes, name: str = "report") -> Stack:
    """The stack that a pasted text states. name: how sources call the text (``name:line``)."""
    out = StackBuilder("report")
    text = clean(decode(raw) if isinstance(raw, bytes) else raw)
    if looks_binary(text):
        out.section("binary", "unparsed", 1, 1, "this is no text")
        return out.build()
    read_text(text, name, out)
    return out.build()


def read_text(text: str, name: str, out: StackBuilder) -> None:
    """Read cleaned text into the builder."""
    lines, left_out = take_lines(text)
    if left_out:
        out.section("text", "unparsed", 1, 1, f"{left_out} lines in the middle were not read")
    free = _read_blocks(lines, name, out)
    _read_free(lines, free, name, out)
    read_permissions(lines, name, out)
    find_symptoms(text, name, out)
    _installed_by_complaint(out)
    _machine(out)
    if out.variables:
        add_variable_facts(out.variables, name, out)


def _machine(out: StackBuilder) -> None:
    """Whether the text speaks of CUDA devices and, where it does, of an NPU too: sightings, since
    neither is a complaint."""
    machine = [s for s in out.signals if s.id in ("cuda-host", "npu-named")]
    out.signals = [s for s in out.signals if s.id not in ("cuda-host", "npu-named")]
    for signal in machine:
        if signal.id == "cuda-host":
            out.add("cuda_host", "yes", signal.source, "stated")
            if signal.data.get("driver"):
                out.add("cuda_driver", signal.data["driver"], signal.source, "stated")
    asks = any(s.id in ("library-cuda", "module-cuda-only") for s in out.signals)
    wheels = any("+cu" in found.version for found in out.sightings("torch")) or any(
        name.startswith("nvidia-") for name in out.packages
    )
    named = next((s for s in machine if s.id == "npu-named"), None)
    if named is not None and (asks or wheels or out.has("cuda_host")):
        out.add("npu_named", "yes", named.source, "inferred")


def _installed_by_complaint(out: StackBuilder) -> None:
    """pip's "A 1 requires B==2, but you have B 3" states what is installed."""
    for signal in [s for s in out.signals if s.id == "dependency-conflict"]:
        if signal.data.get("have"):
            for name, version in (
                (signal.data["name"], signal.data.get("version", "")),
                (signal.data["needs"], signal.data["have"]),
            ):
                add_package(name, version, signal.source, out)


def _read_blocks(lines: list[str], name: str, out: StackBuilder) -> list[int]:
    """Offer every line to the formats; the numbers of the lines that none took.

    A line that was seen before and that no format took is not offered again: logs repeat.
    """
    free: list[int] = []
    declined: set[str] = set()
    tests = [(kind, form, form.starts) for kind, form in FORMATS.items()]
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        if line and not line.isspace() and line not in declined:
            for kind, form, starts in tests:
                if not starts(line):
                    continue
                block = Block(lines, at, at + 1, name)
                result = form.read(block, out)
                if result is not None:
                    end = block.end
                    _note(out, kind, result, at + 1, end)
                    break
            else:
                free.append(at)
                declined.add(line)
        at = end
    return free


def _note(out: StackBuilder, kind: str, result: tuple[str, str], first: int, last: int) -> None:
    """Record the section, joining it to the one before when that is the same."""
    state, note = result
    if out.sections:
        before = out.sections[-1]
        if before.kind == kind and before.state == state and before.lines[1] + 2 >= first:
            out.sections[-1] = type(before)(
                kind, state, (before.lines[0], last), before.note or note
            )
            return
    if len(out.sections) < MAX_SECTIONS:
        out.section(kind, state, first, last, note)


def _read_free(lines: list[str], free: list[int], name: str, out: StackBuilder) -> None:
    """Lines that can say something; of very many the first and the last ones."""
    worth = [at for at in free if free_text.lively(lines[at][:6000].lower())]
    if len(worth) > 2 * free_text.MOST_LINES:
        worth = worth[: free_text.MOST_LINES] + worth[-free_text.MOST_LINES :]
    for at in worth:
        free_text.read_line(lines[at], f"{name}:{at + 1}", out)
