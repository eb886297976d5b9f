"""Environment variables with values that are refused, ineffective or known to hurt.

Ranges are data (matrices/variables.tsv); combinations are here, each with its rule of the
documentation that the table cites.
"""

from __future__ import annotations

import re

from certify.light import lazy
from certify.resolver.findings import ERROR, INFO, WARNING, Finding
from certify.versions import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts

# Only these are worth reading the table for.
_GROUPS = (
    "HCCL_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR", "TASK_QUEUE", "ACL_", "INF_NAN", "STREAMS_",
    "MULTI_STREAM", "CPU_AFFINITY", "NPU_ASD", "ASCEND_LAUNCH", "ASCEND_GLOBAL", "ASCEND_SLOG",
    "COMBINED_", "PER_STREAM", "TRITON_", "OOM_", "P2P_HCCL", "CUDA_DEVICE_MAX", "TRAINING_BACKEND",
)  # fmt: skip
_ALLOC = "PYTORCH_NPU_ALLOC_CONF"
_NEED = lazy(r"(HDK|CANN|TorchNPU|PyTorch) (>=|<=) ([\w.]+)")
_NEED_KEYS = {"HDK": "driver", "CANN": "cann", "TorchNPU": "torch_npu_product", "PyTorch": "torch"}
_FAMILIES = {"driver": "hdk", "cann": "cann", "torch_npu_product": "product", "torch": "pep440"}
# Values outside the range that the stack replaces by the default instead of refusing them.
_REPLACED = ("STREAMS_PER_DEVICE", "TORCH_NPUGRAPH_GC")


def check(facts: Facts) -> Iterable[Finding]:
    """All findings about recorded variables; the table is read only when there are any."""
    variables = {k: v for k, v in facts.stack.variables.items() if v != ""}
    if not any(name.startswith(_GROUPS) for name in variables):
        return
    from matrices.files import read_tsv

    table = {row["name"]: row for row in read_tsv("variables.tsv")}
    for name, value in variables.items():
        row = table.get(name)
        if row is None:
            continue
        if row["check"] and row["check"] != "options" and not fits(row["check"], value):
            severity = WARNING if name in _REPLACED else ERROR
            yield _finding(severity, name, value, "variable-range", row["source"], row["values"])
    yield from _allocator(facts, variables, table)
    yield from _combinations(facts, variables, table)


def _finding(
    severity: str, name: str, value: str, text: str, source: str, expected: str = "", **more: str
) -> Finding:
    values = {"name": name, "value": value, "expected": expected, **more}
    return Finding("variables", severity, name, text, values, source)


def fits(check: str, value: str) -> bool:
    """Whether a value passes a check of the table: ``one:a|b``, ``int:low:high``,
    ``float:low:high``; an empty bound is open. References to other variables pass."""
    if "$" in value:
        return True
    kind, _, rest = check.partition(":")
    if kind == "one":
        return value.strip().lower() in {word.lower() for word in rest.split("|")}
    low, _, high = rest.partition(":")
    try:
        number = float(value)
    except ValueError:
        return False
    if kind == "int" and not number.is_integer():
        return False
    return (not low or number >= float(low)) and (not high or number <= float(high))


def _allocator(
    facts: Facts, variables: dict[str, str], table: dict[str, dict[str, str]]
) -> Iterable[Finding]:
    options = allocator_options(variables.get(_ALLOC, ""))
    source = table.get(_ALLOC, {}).get("source", "")
    for option, value in options.items():
        row = table.get(f"{_ALLOC}:{option}")
        if row is None:
            continue
        if row["check"] and not fits(row["check"], value):
            yield _finding(ERROR, _ALLOC, f"{option}:{value}", "variable-range", source,
                           row["values"])  # fmt: skip
        yield from _needs(facts, f"{option}:{value}", row)
    if options.get("expandable_segments", "").lower() == "true":
        for other in ("max_split_size_mb", "garbage_collection_threshold"):
            if other in options:
                yield _finding(ERROR, _ALLOC, variables[_ALLOC], "variable-excludes", source,
                               other=other, one="expandable_segments:True")  # fmt: skip
    on = [k for k in ("pin_memory_expandable_segments", "pinned_mem_register")
          if options.get(k, "").lower() == "true"]  # fmt: skip
    if len(on) > 1:
        yield _finding(ERROR, _ALLOC, variables[_ALLOC], "variable-excludes", source,
                       one=on[0], other=on[1])  # fmt: skip
    if "page_size" in options and len(options) > 1:
        yield _finding(WARNING, _ALLOC, variables[_ALLOC], "variable-only", source,
                       one="page_size")  # fmt: skip


def allocator_options(text: str) -> dict[str, str]:
    """``option:value`` pairs; the array form of roundup_power2_divisions keeps its commas."""
    options = {}
    for part in re.split(r",(?![^\[]*\])", text.strip("\"'")):
        name, colon, value = part.strip().partition(":")
        if colon:
            options[name] = value
    return options


def _needs(facts: Facts, value: str, row: dict[str, str]) -> Iterable[Finding]:
    """Floors that an option states, against the versions that were seen."""
    for name, sign, version in _NEED.findall(row["needs"]):
        key = _NEED_KEYS[name]
        found = facts.version(key)
        if found is None:
            continue
        try:
            good = matches(_FAMILIES[key], f"{sign}{version}", found)
        except ValueError:
            continue
        if not good:
            yield _finding(WARNING, _ALLOC, value, "variable-needs", row["source"],
                           f"{name} {sign} {version}", found=f"{name} {found}")  # fmt: skip


def _number(variables: dict[str, str], name: str) -> float | None:
    try:
        return float(variables[name])
    except (KeyError, ValueError):
        return None


def _combinations(
    facts: Facts, variables: dict[str, str], table: dict[str, dict[str, str]]
) -> Iterable[Finding]:
    def source(name: str) -> str:
        return table.get(name, {}).get("source", "")

    event, execution = (
        _number(variables, "HCCL_EVENT_TIMEOUT"),
        _number(variables, "HCCL_EXEC_TIMEOUT"),
    )
    if event is not None and event != 0 and execution is not None and event <= execution:
        yield _finding(ERROR, "HCCL_EVENT_TIMEOUT", variables["HCCL_EVENT_TIMEOUT"],
                       "variable-greater", source("HCCL_EVENT_TIMEOUT"),
                       other="HCCL_EXEC_TIMEOUT",
                       limit=variables["HCCL_EXEC_TIMEOUT"])  # fmt: skip
    if variables.get("ASCEND_LAUNCH_BLOCKING") == "1":
        yield _finding(WARNING, "ASCEND_LAUNCH_BLOCKING", "1", "variable-debug",
                       source("ASCEND_LAUNCH_BLOCKING"))  # fmt: skip
    if variables.get("MULTI_STREAM_MEMORY_REUSE") == "2":
        yield _finding(INFO, "MULTI_STREAM_MEMORY_REUSE", "2", "variable-discouraged",
                       source("MULTI_STREAM_MEMORY_REUSE"))  # fmt: skip
    if variables.get("ASCEND_GLOBAL_LOG_LEVEL") in ("0", "1"):
        yield _finding(WARNING, "ASCEND_GLOBAL_LOG_LEVEL", variables["ASCEND_GLOBAL_LOG_LEVEL"],
                       "variable-slow-log", source("ASCEND_GLOBAL_LOG_LEVEL"))  # fmt: skip
    alloc = allocator_options(variables.get(_ALLOC, ""))
    if variables.get("TORCH_HCCL_ZERO_COPY") == "1":
        expandable = alloc.get("expandable_segments", "").lower() == "true"
        if not expandable or facts.product not in (None, "A3"):
            yield _finding(ERROR, "TORCH_HCCL_ZERO_COPY", "1", "variable-zero-copy",
                           source("TORCH_HCCL_ZERO_COPY"))  # fmt: skip
    if (
        variables.get("INF_NAN_MODE_ENABLE") == "0"
        and facts.product in ("A2", "A3")
        and variables.get("INF_NAN_MODE_FORCE_DISABLE") != "1"
    ):
        yield _finding(ERROR, "INF_NAN_MODE_ENABLE", "0", "variable-inf-nan",
                       source("INF_NAN_MODE_ENABLE"))  # fmt: skip
    if variables.get("HCCL_OP_EXPANSION_MODE") == "AIV":
        if variables.get("HCCL_DETERMINISTIC", "").lower() in ("true", "strict"):
            yield _finding(WARNING, "HCCL_OP_EXPANSION_MODE", "AIV", "variable-overridden",
                           source("HCCL_DETERMINISTIC"), by="HCCL_DETERMINISTIC")  # fmt: skip
        elif facts.product == "A2":
            yield _finding(WARNING, "HCCL_OP_EXPANSION_MODE", "AIV", "variable-aiv",
                           source("HCCL_OP_EXPANSION_MODE"))  # fmt: skip
    yield from _by_version(facts, variables, source("NPU_ASD_ENABLE"))


def _by_version(facts: Facts, variables: dict[str, str], source: str) -> Iterable[Finding]:
    product = _product_release(facts)
    if "PYTORCH_ALLOC_CONF" in variables and _ALLOC in variables:
        both = product is None or matches("product", ">=26.2.0", product)
        yield _finding(ERROR if product and both else INFO, "PYTORCH_ALLOC_CONF",
                       variables["PYTORCH_ALLOC_CONF"], "variable-both", "",
                       other=_ALLOC)  # fmt: skip
    if product is None:
        return
    if "NPU_ASD_ENABLE" in variables and matches("product", ">=7.1.0", product):
        yield _finding(INFO, "NPU_ASD_ENABLE", variables["NPU_ASD_ENABLE"], "variable-no-effect",
                       source, found=f"TorchNPU {product}")  # fmt: skip
    if "NPU_ASD_CONFIG" in variables and matches("product", "<=7.0.0", product):
        yield _finding(INFO, "NPU_ASD_CONFIG", variables["NPU_ASD_CONFIG"], "variable-no-effect",
                       source, found=f"TorchNPU {product}")  # fmt: skip


def _product_release(facts: Facts) -> str | None:
    from certify.resolver.claims import claims_of
    from certify.resolver.pairs import completed

    return completed(claims_of(facts.matrix), facts.have, facts.context).get("torch_npu_product")
