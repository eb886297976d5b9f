"""Package listings and pip's messages: list, freeze, show, install, wheels and file names."""

from __future__ import annotations

import re

from certify.environment.names import component_of, is_known_package, normal
from certify.environment.report.block import Block, Format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from certify.environment.builder import StackBuilder

_NAME = r"[A-Za-z][\w.-]{0,80}"
_VERSION = r"v?\d[\w.+!-]{0,100}"
_ROW = re.compile(rf"^\s*({_NAME})\s{{2,}}({_VERSION})(?:\s+(\S.{{0,300}}))?\s*$")
_ROW_TAB = re.compile(rf"^\s*({_NAME})[ \t]+({_VERSION})\s*$")
_FROZEN = re.compile(
    rf"^\s*(?:\[(?:pip3?|conda)\]\s*)?({_NAME})\s*={{2,3}}\s*({_VERSION})\s*(?:#.*|;.*)?$"
)
_CONDA = re.compile(
    rf"^\s*(?:\[conda\]\s*)?({_NAME})\s+({_VERSION})\s+(?:py\w+|h[0-9a-f]{{6,}}\w*|\d+)(?:\s+\S+)?\s*$"
)
_DIRECT = re.compile(rf"^\s*({_NAME})\s*@\s*(\S{{3,300}})")
_EDITABLE = re.compile(r"^\s*-e\s+(\S{3,300})")
_REVISION = re.compile(r"\.git@([\w./-]{1,100})(?:#|$)")
_INSTALLED = re.compile(r"Successfully installed ((?:\S{3,120} ?){1,400})")
_PAIR = re.compile(rf"^({_NAME}?)-({_VERSION})$")
_WHEEL = re.compile(
    rf"(?<![\w.])([A-Za-z][\w.]{{1,60}})-({_VERSION})-(?:\d\w*-)?(cp3\d+|py[23\d.]+)-(\w+)-([\w.]+)\.whl"
)
_CANN_FILE = re.compile(
    r"Ascend-(cann|hdk)-([\w-]{1,60}?)_(\d[\w.-]{0,40}?)_linux(?:-(\w{1,20}))?(?:\.run|\.zip|\b)",
    re.I,
)
_PIP_HEADER = re.compile(r"^\s*Package\s+Version")
_RULE = re.compile(r"^\s*-{3,}\s+-{3,}")


def add_package(
    name: str,
    version: str,
    source: str,
    out: StackBuilder,
    confidence: str = "stated",
    **detail: str,
) -> None:
    """A package sighting: into `packages`, and as a component where the matrix knows it."""
    key = normal(name)
    version = version.rstrip(".,;:")
    if key not in out.packages and len(out.packages) < 4000:
        out.packages[key] = version[:100]
    component = component_of(key)
    if component:
        spelled = version.removeprefix("v")
        out.add(component, spelled, source, confidence, **detail)


def _list_row(line: str) -> re.Match[str] | None:
    return _ROW.match(line) if "  " in line or "\t" in line else None


def _starts_list(line: str) -> bool:
    if len(line) > 500 or not ("  " in line or "\t" in line or line.count(" ") == 1):
        return False
    if _PIP_HEADER.match(line):
        return True
    row = _list_row(line) or (_ROW_TAB.match(line) if line.count(" ") == 1 else None)
    return row is not None and is_known_package(normal(row.group(1)))


def _read_list(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    """Two or three columns; the third is an editable location. One row may be all there is."""

    def belongs(line: str) -> bool:
        return len(line) <= 500 and bool(
            _PIP_HEADER.match(line)
            or _RULE.match(line)
            or _list_row(line)
            or _CONDA.match(line)
            or ((row := _ROW_TAB.match(line)) and is_known_package(normal(row.group(1))))
        )

    lines = block.take_while(belongs, 5000)
    known = 0
    for offset, line in enumerate(lines):
        row = _list_row(line) or _ROW_TAB.match(line) or _CONDA.match(line)
        if row is None or _PIP_HEADER.match(line):
            continue
        name, version = row.group(1), row.group(2)
        place = row.group(3) if row.re is _ROW and row.group(3) else ""
        detail = {"path": place} if place.startswith(("/", "~")) else {}
        known += is_known_package(normal(name))
        add_package(name, version, block.source(offset), out, **detail)
    return ("read", f"{len(lines)} rows") if known or len(lines) > 3 else None


def _starts_freeze(line: str) -> bool:
    text = line.strip()
    if len(text) > 400 or not text or not ("=" in text or "@" in text or text[0] in "-["):
        return False
    if text.startswith(("[pip", "[conda]")):
        return True
    return bool(_FROZEN.match(line) or _DIRECT.match(line) or _EDITABLE.match(line))


def _read_freeze(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    lines = block.take_while(_starts_freeze, 5000)
    found = 0
    for offset, line in enumerate(lines):
        source = block.source(offset)
        frozen = _FROZEN.match(line)
        if frozen:
            add_package(frozen.group(1), frozen.group(2), source, out)
            found += 1
            continue
        direct, editable = _DIRECT.match(line), _EDITABLE.match(line)
        if direct or editable:
            found += _add_direct(direct, editable, source, out)
            continue
        conda = _CONDA.match(line.replace("[conda]", "", 1))
        if conda:
            add_package(conda.group(1), conda.group(2), source, out)
            found += 1
    return ("read", f"{found} packages") if found or lines else None


def _add_direct(
    direct: re.Match[str] | None, editable: re.Match[str] | None, source: str, out: StackBuilder
) -> int:
    """``name @ git+url@rev`` and ``-e git+url@rev#egg=name``: a commit instead of a version."""
    url = direct.group(2) if direct else editable.group(1) if editable else ""
    name = direct.group(1) if direct else url.rsplit("egg=", 1)[-1] if "egg=" in url else ""
    name = name or url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git").split(".git@")[0]
    revision = _REVISION.search(url)
    component = component_of(normal(name))
    if component is None:
        return 0
    version = revision.group(1) if revision else "unknown"
    out.packages.setdefault(normal(name), version)
    out.add(component, version, source, "stated", url=url[:200], revision="yes")
    return 1


def _read_show(block: Block, out: StackBuilder) -> tuple[str, str] | None:
    """`pip show`: Name, Version, Location."""
    lines = block.take_while(lambda line: ":" in line, 30)
    fields: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    if "Name" not in fields or "Version" not in fields:
        return None
    place = fields.get("Editable project location") or fields.get("Location") or ""
    detail = {"path": place} if place else {}
    add_package(fields["Name"], fields["Version"], block.source(), out, **detail)
    return "read", ""


def read_inline(line: str, source: str, out: StackBuilder) -> None:
    """Install messages, wheels and CANN package files named anywhere in a line."""
    installed = _INSTALLED.search(line)
    if installed:
        for word in installed.group(1).split():
            pair = _PAIR.match(word)
            if pair:
                add_package(pair.group(1), pair.group(2), source, out)
    for wheel in _WHEEL.finditer(line):
        name, version, tag, _, platform = wheel.groups()
        if "is not a supported wheel" in line:
            continue
        add_package(name, version, source, out, wheel=wheel.group(0))
        if tag.startswith("cp3"):
            out.add("python", f"3.{tag[3:]}", source, "inferred", tag=tag)
        for arch in ("x86_64", "aarch64"):
            if arch in platform:
                out.add("arch", arch, source, "inferred", wheel=wheel.group(0))
    for cann in _CANN_FILE.finditer(line):
        _add_cann_file(cann, source, out)


def _add_cann_file(match: re.Match[str], source: str, out: StackBuilder) -> None:
    kind, part, version, arch = match.groups()
    part = part.lower()
    if arch:
        out.add("arch", arch, source, "inferred")
    if kind.lower() == "hdk":
        out.add("firmware" if "firmware" in part else "driver", version, source, "stated")
    elif part in ("toolkit", "nnae"):
        out.add("cann", version, source, "stated", package=match.group(0))
    elif part.startswith("nnal"):
        out.add("nnal", version, source, "stated")
    elif "kernels" in part or part.endswith("ops"):
        chip = part.replace("kernels-", "").replace("-ops", "")
        out.add("cann_ops", version, source, "stated", chip=chip)


PIP_LIST = Format(_starts_list, _read_list)
PIP_FREEZE = Format(_starts_freeze, _read_freeze)
PIP_SHOW = Format(lambda line: line.startswith("Name: "), _read_show)
