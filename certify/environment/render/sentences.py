"""A finding as sentences: what was found, what was expected, why, and one hint."""

from __future__ import annotations

from certify.environment.render.words import word
from certify.light import module as load
from certify.resolver.words import render as render_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from certify.resolver.findings import Finding, Missing
    from matrices.load import Matrix

# How a component is brought to a version. {v}: the version; {spec}: the specification as stated.
_COMMANDS = {
    "torch": "pip install torch=={v} --index-url https://download.pytorch.org/whl/cpu",
    "torch_npu": "pip install torch_npu=={v} "
    "--extra-index-url https://mirrors.huaweicloud.com/ascend/repos/pypi",
    "torchvision": "pip install --no-deps torchvision=={v}",
    "triton_ascend": "pip uninstall -y triton triton-ascend && "
    "pip install --no-deps triton-ascend=={v} "
    "--extra-index-url https://mirrors.huaweicloud.com/ascend/repos/pypi",
    "triton": "pip uninstall -y triton triton-ascend && "
    "pip install --no-deps --force-reinstall triton-ascend",
    "mindspeed_core": "git -C MindSpeed checkout {v}",
    "mindspeed_llm": "git -C MindSpeed-LLM checkout {v}",
    "megatron": "git -C Megatron-LM checkout {v}",
    "cann": "certify resolve --to cann={v}",
    "cann_ops": "certify resolve --to cann={v}",
    "nnal": "certify resolve --to cann={v}",
    "hdk": "certify resolve --to hdk={v}",
    "driver": "certify resolve --to hdk={v}",
    "firmware": "npu-smi info -t board -i 0",
    "python": "conda create -n train python={v}",
    "glibc": "ldd --version",
    "product": "certify matrix show product",
}  # fmt: skip


class _Lenient(dict[str, str]):
    """Values of a sentence; one that is not known shows as ``?``."""

    def __missing__(self, key: str) -> str:
        return "?"


def catalogue(lang: str) -> dict[str, Any]:
    """The texts of a language, imported when they are first needed."""
    module = load(f"certify.environment.render.catalog_{lang}")
    texts: dict[str, Any] = module.TEXTS
    return texts


def name_of(matrix: Matrix, component: str) -> str:
    """The name that people know a component by."""
    row = matrix.components.get(component)
    return row["name"] if row else component


def in_words(
    finding: Finding, matrix: Matrix, lang: str, commands: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    """The finding as the JSON output has it: rule, severity, component, found, expected, source,
    why (list of sentences) and hint.

    commands: component -> lines of the smallest change; a pair's hint is taken from there, so that
    hints and change do not contradict each other.
    """
    if finding.text.startswith("pair-"):
        found, expected, hint = _pair(finding, matrix, lang)
        for name in (finding.values["object"], finding.values["subject"]):
            if commands.get(name):
                hint = " && ".join(commands[name])
    else:
        found, expected, hint = _listed(finding, lang)
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "component": finding.component,
        "found": found,
        "expected": expected,
        "source": finding.source,
        "why": [render_reason(reason, lang) for reason in finding.reasons],
        "hint": hint,
    }


def _listed(finding: Finding, lang: str) -> tuple[str, str, str]:
    values = _Lenient({k: _short(v) for k, v in finding.values.items() if v})
    english = catalogue("en").get(finding.text)
    if english is None:
        return values.get("text", finding.text), "", ""
    found, expected, hint = english
    if lang == "zh":
        found, expected = catalogue("zh")[finding.text]
    if "causes" in finding.values:
        causes = load("certify.environment.render.catalog_en").CAUSES
        cause = finding.values.get("cause", finding.rule)
        if cause in causes:
            english_text, chinese_text, hint = causes[cause]
            expected = chinese_text if lang == "zh" else english_text
    return found.format_map(values), expected.format_map(values), hint.format_map(values)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 240 else text[:237] + "..."


def _pair(finding: Finding, matrix: Matrix, lang: str) -> tuple[str, str, str]:
    values = finding.values
    subject, object_ = values["subject"], values["object"]
    a, b = name_of(matrix, subject), name_of(matrix, object_)
    joint = word("with", lang)
    found = f"{a} {values['subject_found']} {joint} {b} {values['object_found']}"
    options = []
    if values["object_expected"]:
        options.append(_option(b, values["object_expected"], a, values["subject_found"], lang))
    if values["subject_expected"]:
        options.append(_option(a, values["subject_expected"], b, values["object_found"], lang))
    expected = f" {word('or', lang)} ".join(options) or word("undeclared", lang)
    change = finding.component
    best = values["object_best"] if change in (object_, "driver") else values["subject_best"]
    if not best:
        change, best = (object_, values["object_best"]) if change == subject else (
            subject, values["subject_best"]
        )  # fmt: skip
    if not _can_change(change, matrix):
        # The fact follows from the other part, which can be brought to another version.
        other, wanted = (object_, "object_best") if change == subject else (subject, "subject_best")
        if _can_change(other, matrix) and values[wanted]:
            change, best = other, values[wanted]
    return found, expected, command_for(change, best, matrix)


def _can_change(component: str, matrix: Matrix) -> bool:
    """Whether a line can bring the component to a version: not so for what follows from others."""
    return component in _COMMANDS or bool(_package(component, matrix))


def _package(component: str, matrix: Matrix) -> str:
    """What pip calls a component, empty when it is none of its packages (a checkout is none)."""
    row = matrix.components.get(component)
    if row is None or row["family"] != "pep440":
        return ""
    names = row["packages"].replace(",", " ").split()
    return names[0] if names else ""


def _option(name: str, versions: str, other: str, found: str, lang: str) -> str:
    if versions == "none":
        return f"{name} {word('absent', lang)}"
    return f"{name} {versions} ({word('for', lang)} {other} {found})"


def command_for(component: str, version: str, matrix: Matrix) -> str:
    """One line that brings a component to a version (or a range), or shows how it stands."""
    if not version or version == "none":
        return _COMMANDS["triton"] if component == "triton" else "certify resolve"
    template = _COMMANDS.get(component)
    plain = version.lstrip("=")
    name = _package(component, matrix)
    if any(sign in version for sign in "<>!,*|"):
        if not name:
            return "certify resolve"
        return f'pip install "{name}{version.replace("|", ",")}"'
    if template is None:
        return f"pip install {name}=={plain.removeprefix('v')}" if name else "certify resolve"
    return template.replace("{v}", plain)


def missing_in_words(item: Missing, lang: str) -> dict[str, str]:
    """What is missing: component, what it is, why it matters, and what to run."""
    texts = catalogue(lang).get(item.text)
    what, why = (texts[0], texts[1]) if texts else (item.component, "")
    if item.text == "missing-unparsed":
        what = f"{what}: {item.component}"
    return {"component": item.component, "what": what, "why": why, "command": item.command}
