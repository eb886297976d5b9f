"""Rules of the shell script itself: what is assigned, passed, continued and logged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from certify.recipes.importers.launch import launches
from certify.recipes.importers.options import is_option, known_options
from certify.recipes.importers.values import Origin
from certify.recipes.lint.context import Context, Hit
from matrices import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certify.recipes.importers.shell_facts import Assignment, ShellScript

_LAYOUT = frozenset(
    ("TP", "PP", "VPP", "EP", "CP", "ETP", "MBS", "GBS", "SEQ_LEN", "SEQ_LENGTH", "CP_TYPE",
     "CP_ALGO", "NUM_LAYERS", "TRAIN_ITERS", "ROUTER_BALANCING_TYPE", "FSDP_SIZE", "EP_SIZE")
)  # fmt: skip
_BLANKS_AFTER_BACKSLASH = re.compile(r"\\[ \t]+\r?$")
_SIZE = re.compile(r"(?<![\d.a-zA-Z])\d+(?:p|\.|point)?\d*[bB]\d?(?![a-zA-Z\d])")


def _script(c: Context) -> ShellScript | None:
    return c.imported.script if c.imported is not None else None


def text(c: Context) -> Iterator[Hit]:
    """S02, S13, S17, S19, S20: the text as bash reads it."""
    script = _script(c)
    if script is None:
        return
    if script.crlf:
        yield Hit("S13", f"{script.text.count(chr(13))} lines", Origin(script.file, 1))
    for number, line in enumerate(script.text.split("\n"), 1):
        if _BLANKS_AFTER_BACKSLASH.search(line) and not line.lstrip().startswith("#"):
            yield Hit("S02", line.strip()[:60], Origin(script.file, number))
    for origin in script.placeholders:
        yield Hit("S17", "a value in angle brackets", origin)
    for word in script.missing_sources:
        # Paths of the system are not part of a checkout.
        if word.known and not word.text.startswith(("/", "~")):
            yield Hit("S19", word.text, word.origin)
    for origin in script.broken[:5]:
        yield Hit("S20", "syntax", origin)


def variables(c: Context) -> Iterator[Hit]:
    """S03, S04, S06, S07: variables that are not used, not assigned, or assigned twice."""
    script = _script(c)
    if script is None:
        return
    seen: dict[str, Assignment] = {}
    for one in script.assignments:
        unused = one.name not in script.uses
        before = seen.get(one.name)
        # A script that overrides what it sources means to.
        same_file = before is not None and before.origin.file == one.origin.file
        if before is not None and same_file and before.value != one.value and one.certain:
            found = f"{one.name}: {before.value[:40]!r}, then {one.value[:40]!r}"
            yield Hit("S06", found, one.origin)
        if one.name not in seen and unused and one.name not in script.exported:
            if one.name.endswith("ARGS") and not c.fsdp2:
                yield Hit("S03", f"{one.name} never passed", one.origin)
            elif one.name in _LAYOUT:
                yield Hit("S07", f"{one.name}={one.value[:40]} never used", one.origin)
        seen[one.name] = one
    for name, origin in script.unassigned.items():
        yield Hit("S04", name, origin)


def program(c: Context) -> Iterator[Hit]:
    """S01, S10: what is started."""
    script = _script(c)
    if script is None or c.imported is None:
        return
    launch = c.imported.launch
    if launch is not None and launch.meant:
        found = f"{launch.name}, meant: {launch.meant}"
        yield Hit("S01", found, launch.entry.origin)
    elif launch is None and not launches(script):
        yield Hit("S01", "no program is started", Origin(script.file, 1))
    for command in script.commands:
        if command.words and is_option(command.words[0].text):
            yield Hit("S10", command.words[0].text, command.origin)


def options(c: Context) -> Iterator[Hit]:
    """S05, S08, S11, S12: the words that reach the program."""
    imported = c.imported
    if imported is None or imported.options is None:
        return
    known = known_options()
    seen: dict[str, str] = {}
    for option in imported.options.given:
        if option.name in seen and seen[option.name] != option.value:
            found = f"{option.name}: {seen[option.name]}, then {option.value}"
            yield Hit("S05", found, option.origin)
        seen[option.name] = option.value
        spec = known.get(option.name)
        if spec is None:
            yield Hit("S12", option.name[:80], option.origin)
        elif not option.values and spec.words not in ("0", "?", "*"):
            yield Hit("S11", f"{option.name} without a value", option.origin)
    # A path that the user is to fill in, as "your data path", is split into words until then.
    to_fill = {
        one.origin for one in (imported.script.assignments if imported.script else ())
        if "--" not in one.value
    }  # fmt: skip
    for word in imported.options.stray[:50]:
        # What only a run could tell, as "$@", may well be options.
        if word.known and word.origin not in to_fill:
            yield Hit("S08", word.text[:60], word.origin)


def log(c: Context) -> Iterator[Hit]:
    """S09, S14, S15: where the log goes and what its pipe hides."""
    script = _script(c)
    if script is None or c.imported is None or c.imported.launch is None:
        return
    command = c.imported.launch.command
    if "tee" not in command.pipes_into:
        return
    if not command.pipefail:
        yield Hit("S14", "no set -o pipefail", command.origin)
    tees = [one for one in script.commands if one.words and one.words[0].text == "tee"]
    made = {
        word.text.rstrip("/").removeprefix("./")
        for one in script.commands
        if one.words and one.words[0].text == "mkdir"
        for word in one.words[1:]
    }
    for tee in tees:
        targets = [word for word in tee.words[1:] if not word.text.startswith("-")]
        for target in targets[:1]:
            folder = target.text.rpartition("/")[0].removeprefix("./")
            if folder and folder not in made and not folder.startswith("/"):
                yield Hit("S15", folder[:60], target.origin)
            yield from _log_name(c, target.text, target.origin)


def _sizes(name: str) -> set[str]:
    """Size tokens of a name, a point written as such: ``0point6B`` is ``0.6b``."""
    plain = (token.lower().replace("point", ".").replace("p", ".") for token in _SIZE.findall(name))
    return set(plain)


def _log_name(c: Context, target: str, origin: Origin) -> Iterator[Hit]:
    logged, script = _sizes(target.rpartition("/")[2]), _sizes(c.script_name)
    if logged and script and not logged & script:
        found = f"log {target} says {'/'.join(sorted(logged))}, script {c.script_name}"
        yield Hit("S09", found, origin)


def together(c: Context) -> Iterator[Hit]:
    """C01, C02, C03: options that exclude or require each other."""
    if not c.megatron:
        return
    for row in files.read_tsv("option_conflicts.tsv"):
        first, other = row["option"][2:], row["other"][2:]
        if not _given(c, first):
            continue
        both = _given(c, other)
        at = _place(c, first)
        if row["relation"] == "excludes" and both:
            yield Hit("C01", f"--{first} with --{other} ({row['source']})", at)
        elif row["relation"] == "requires" and not both:
            yield Hit("C02", f"--{first} without --{other} ({row['source']})", at)
    local = c.raw.get("optimisation_values", {}).get("transformer-impl") == "local"
    if local and c.has("fp8-format"):
        yield Hit("C03", "transformer-impl local", _place(c, "fp8-format"))


# Options that a recipe holds under a key instead of by name.
_AS_KEY = {
    "bf16": ("training.dtype", "bf16"),
    "fp16": ("training.dtype", "fp16"),
    "moe-grouped-gemm": ("moe.grouped_gemm", True),
    "sequence-parallel": ("parallel.sequence_parallel", True),
    "moe-tp-extend-ep": ("parallel.moe_tp_extend_ep", True),
}


def _given(c: Context, name: str) -> bool:
    if c.imported is None and name in _AS_KEY:
        key, value = _AS_KEY[name]
        return bool(c.get(key) == value)
    if c.imported is None and name in ("noop-layers", "num-layer-list"):
        return c.get(f"parallel.{name.replace('-', '_')}") is not None
    return c.has(name)


def _place(c: Context, name: str) -> str | Origin:
    if c.imported is not None and c.imported.options is not None:
        given = c.imported.options.last().get(f"--{name}")
        if given is not None:
            return given.origin
    return "optimisations"


SCRIPT_CHECKS = (text, variables, program, options, log)
CHECKS = (together,)
