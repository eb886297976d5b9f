"""Whether results can repeat bit by bit: what the environment says, and what it cannot say."""

from __future__ import annotations

from certify.resolver.findings import INFO, WARNING, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from certify.resolver.facts import Facts

_SETTINGS = ("HCCL_DETERMINISTIC", "LCCL_DETERMINISTIC")
# Products that are known to take the strict order (a secondary source, see variables.tsv).
_STRICT = ("A2", "A3")


def check(facts: Facts) -> Iterable[Finding]:
    """A note on the settings that are made; a doubt about one that the product may refuse."""
    if facts.accelerator != "npu":
        return
    made = {n: v for n in _SETTINGS if (v := facts.stack.variables.get(n, "").strip())}
    if not made:
        return
    shown = ", ".join(f"{name}={value}" for name, value in made.items())
    hccl = made.get("HCCL_DETERMINISTIC", "").lower()
    if hccl == "strict" and facts.product is not None and facts.product not in _STRICT:
        yield Finding(
            "variables", WARNING, "HCCL_DETERMINISTIC", "determinism-strict",
            {"settings": shown, "product": facts.product}, "environment",
        )  # fmt: skip
    on = hccl in ("true", "strict")
    yield Finding(
        "variables", INFO, "HCCL_DETERMINISTIC", "determinism-on" if on else "determinism-off",
        {"settings": shown}, "environment",
    )  # fmt: skip


def unset(facts: Facts) -> bool:
    """Whether nothing asks for a fixed order of reductions, on a machine with NPUs."""
    value = facts.stack.variables.get("HCCL_DETERMINISTIC", "").lower()
    return facts.accelerator == "npu" and value not in ("true", "strict")
