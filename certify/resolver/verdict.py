"""Stack + matrix -> verdict. Pure: no I/O beyond the matrix that the caller loads."""

from __future__ import annotations

from certify.resolver.facts import Facts
from certify.resolver.findings import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    INFO,
    REFERENCE,
    SEVERITIES,
    UNKNOWN,
    UNVERIFIED,
    WARNING,
    Finding,
    Missing,
    Verdict,
)
from certify.resolver.model import COMPATIBLE as PAIR_COMPATIBLE
from certify.resolver.model import INCOMPATIBLE as PAIR_INCOMPATIBLE
from certify.resolver.model import REFERENCE as PAIR_REFERENCE
from certify.resolver.model import UNDECLARED
from certify.resolver.rules import RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from certify.environment.stack import Stack
    from certify.resolver.model import Resolution
    from certify.resolver.rules.recipe import RecipeNeeds
    from matrices.load import Matrix

# What must be seen before a stack can be called good, by accelerator.
CORE = {
    "npu": ("torch", "torch_npu", "cann", "driver", "product", "python"),
    "cuda": ("torch", "cuda_driver", "python"),
    "cpu": ("torch", "python"),
}
# Rules whose pairs make the base stack.
_BASE = ("torch-pair", "torch-npu-cann", "cann-driver", "soc", "cann-kernels", "nnal", "python")
_LISTING = (
    'python -m pip list 2>/dev/null | grep -Ei "torch|triton|transformers|numpy|mindspeed|megatron'
    '|vllm|deepspeed|scipy|decorator|attrs"'
)
_CANN_FILES = (
    "cat /usr/local/Ascend/cann/*-linux/ascend_toolkit_install.info"
    " /usr/local/Ascend/ascend-toolkit/latest/*-linux/ascend_toolkit_install.info; env | grep "
    "ASCEND"
)
COMMANDS = {
    "torch": _LISTING,
    "torch_npu": _LISTING,
    "cann": _CANN_FILES,
    "driver": "npu-smi info",
    "product": "npu-smi info",
    "python": "python -V",
    "cuda_driver": "nvidia-smi",
    "nnal": "cat /usr/local/Ascend/nnal/atb/latest/version.info",
    "traceback": 'TORCH_DEVICE_BACKEND_AUTOLOAD=0 python -c "import torch, torch_npu"',
    "torch_abi": 'python -c "import torch; print(torch.compiled_with_cxx11_abi())"',
    "numpy": 'python -c "import numpy; print(numpy.__version__)"',
    "compiler-deps": "python -m pip list | grep -Ei "
    '"decorator|attrs|psutil|scipy|sympy|cffi|absl|cloudpickle"',
    "container": "ls -l /dev/davinci* /dev/devmm_svm /dev/hisi_hdc; id; grep Cap /proc/self/status",
    "branches": "for d in MindSpeed-LLM MindSpeed Megatron-LM; "
    'do git -C $d log -1 --format="$d %D %h"; done',
}


def judge(
    stack: Stack,
    matrix: Matrix,
    *,
    product: str | None = None,
    recipe: RecipeNeeds | None = None,
    keep: Collection[str] = (),
) -> Verdict:
    """The verdict with its findings and, where pairs do not fit, the smallest change.

    product: overrides the device that was seen; recipe: what is to be run; keep: components that
    the user cannot change.
    """
    facts = Facts(stack, matrix, product, recipe.model_type if recipe else None)
    findings: list[Finding] = []
    for run in RULES.values():
        findings += run(facts)
    if recipe is not None:
        from certify.resolver.rules.recipe import check as check_recipe

        findings += check_recipe(facts, recipe)
    change = None
    if any(result.status == PAIR_INCOMPATIBLE for result in facts.pairs):
        # The search is needed only here, and most hosts never need it.
        from certify.resolver.change import smallest_change

        change = smallest_change(matrix, facts.have, facts.context, keep)
    return conclude(facts, findings, change)


def conclude(facts: Facts, findings: list[Finding], change: Resolution | None = None) -> Verdict:
    """The verdict that these findings carry."""
    ordered = _ordered(findings)
    missing = _missing(facts, ordered)
    word = _word(facts, ordered)
    versions = dict(sorted(facts.have.items()))
    return Verdict(word, tuple(ordered), tuple(missing), versions, change)


def _ordered(findings: list[Finding]) -> list[Finding]:
    """Errors first; of findings that say the same under one rule the weightiest stays."""
    kept: dict[tuple[str, str, str], Finding] = {}
    for finding in sorted(findings, key=lambda f: SEVERITIES.index(f.severity)):
        key = (finding.rule, finding.text, _subject_of(finding))
        kept.setdefault(key, finding)
    return list(kept.values())


def _subject_of(finding: Finding) -> str:
    values = finding.values
    pair = values.get("subject", "") + values.get("object", "")
    return pair or values.get("symbol") or values.get("module") or values.get("conflict") or ""


def _word(facts: Facts, findings: list[Finding]) -> str:
    if any(finding.severity == ERROR for finding in findings):
        return INCOMPATIBLE
    core = CORE[facts.accelerator]
    seen = [name for name in core if facts.known(name)]
    judged = [result for result in facts.pairs if result.rule in _BASE]
    good = [r for r in judged if r.status in (PAIR_REFERENCE, PAIR_COMPATIBLE)]
    if not judged and len(seen) < 3:
        return UNKNOWN
    doubtful = any(finding.severity == WARNING for finding in findings)
    if not good:
        return UNKNOWN if len(seen) < 2 else UNVERIFIED
    if doubtful or len(seen) < len(core) or any(r.status == UNDECLARED for r in judged):
        return UNVERIFIED
    main = [r for r in judged if r.rule in ("torch-pair", "torch-npu-cann", "cann-driver")]
    if facts.accelerator == "npu" and all(r.status == PAIR_REFERENCE for r in main) and main:
        return REFERENCE
    return COMPATIBLE


def _missing(facts: Facts, findings: list[Finding]) -> list[Missing]:
    """Core components that were not seen, and what open findings ask for."""
    wanted = [name for name in CORE[facts.accelerator] if not facts.known(name)]
    items = [Missing(name, f"missing-{name}", COMMANDS[name]) for name in wanted]
    open_rules = {finding.rule for finding in findings if finding.severity != INFO}
    for rule, name in _ASKED.items():
        if rule in open_rules and not (name in facts.have and name != "container"):
            items.append(Missing(name, f"missing-{name}", COMMANDS[name]))
    if any(f.text == "abi-unknown" for f in findings):
        items.append(Missing("torch_abi", "missing-torch_abi", COMMANDS["torch_abi"]))
    for section in facts.stack.sections:
        if section.state == "unparsed":
            where = f"{section.kind}, lines {section.lines[0]}-{section.lines[1]}: {section.note}"
            items.append(Missing(where, "missing-unparsed", "certify collector"))
    return _once(items)


_ASKED = {
    "autoload-wrapper": "traceback",
    "nnal": "nnal",
    "numpy": "numpy",
    "cann-python-deps": "compiler-deps",
    "container-devices": "container",
    "mindspeed-pair": "branches",
    "megatron-pair": "branches",
}


def _once(items: list[Missing]) -> list[Missing]:
    seen: set[str] = set()
    kept = []
    for item in items:
        if item.component not in seen:
            seen.add(item.component)
            kept.append(item)
    return kept
