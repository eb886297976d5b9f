"""What one recipe needs of a host, beyond a stack that fits together."""

from __future__ import annotations

from certify.resolver.findings import ERROR, INFO, WARNING, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from dataclasses import dataclass, field

    from certify.resolver.facts import Facts
else:
    from certify.light import dataclass, field

# Recipes name generations; claims name product families.
FAMILY = {"A2": "A2", "A3": "A3", "A5": "950"}


@dataclass(frozen=True)
class RecipeNeeds:
    """What a recipe states. product: A2, A3 or A5; branch: of MindSpeed-LLM; env: variables of the
    published script; source: the script."""

    id: str
    backend: str
    product: str | None = None
    npus_per_node: int | None = None
    model_type: str | None = None
    branch: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


def check(facts: Facts, needs: RecipeNeeds) -> Iterable[Finding]:
    """Product family, devices a node, branch and variables of the recipe."""
    yield from _devices(facts, needs)
    yield from _branch(facts, needs)
    yield from _variables(facts, needs)


def _finding(
    needs: RecipeNeeds, rule: str, severity: str, component: str, text: str, **values: str
) -> Finding:
    return Finding(rule, severity, component, text, {"recipe": needs.id, **values}, needs.source)


def _devices(facts: Facts, needs: RecipeNeeds) -> Iterable[Finding]:
    wanted = FAMILY.get(needs.product or "")
    if wanted and facts.product and facts.product != wanted:
        yield _finding(
            needs, "soc", ERROR if facts.accelerator == "npu" else WARNING, "product",
            "recipe-product", product=facts.product, wanted=wanted,
        )  # fmt: skip
    devices = facts.stack.devices
    if needs.npus_per_node and devices:
        # On A3 npu-smi, ranks and the published NPUs a node all count dies.
        if len(devices) < needs.npus_per_node:
            yield _finding(
                needs, "recipe-pins", ERROR, "product", "recipe-devices",
                found=str(len(devices)), wanted=str(needs.npus_per_node),
            )  # fmt: skip
        bad = [d for d in devices if (d.health or "OK").upper() not in ("OK", "NA", "-", "")]
        usable = len(devices) - len(bad)
        if bad and usable < needs.npus_per_node <= len(devices):
            yield _finding(
                needs, "recipe-pins", WARNING, "product", "recipe-healthy-devices",
                found=str(usable), wanted=str(needs.npus_per_node),
            )  # fmt: skip
    yield from _memory(facts, needs)


def _memory(facts: Facts, needs: RecipeNeeds) -> Iterable[Finding]:
    """Published rows name no memory; a chip with less than its family's usual one is a note."""
    usual: dict[str, int] = {}
    for row in facts.matrix.tables["chips"]:
        size = int(row["memory_mb"]) if row["memory_mb"].isdigit() else 0
        usual[row["product"]] = max(usual.get(row["product"], 0), size)
    sizes = [d.memory_mb for d in facts.stack.devices if d.memory_mb]
    most = usual.get(FAMILY.get(needs.product or "") or "", 0)
    if sizes and most and min(sizes) < most * 0.9:
        yield _finding(
            needs, "recipe-pins", WARNING, "product", "recipe-memory", found=str(min(sizes)),
            wanted=str(most),
        )  # fmt: skip


def _branch(facts: Facts, needs: RecipeNeeds) -> Iterable[Finding]:
    found = facts.version("mindspeed_llm")
    if needs.branch and found and found != needs.branch:
        yield _finding(
            needs, "recipe-pins", WARNING, "mindspeed_llm", "recipe-branch", found=found,
            wanted=needs.branch,
        )  # fmt: skip


def _variables(facts: Facts, needs: RecipeNeeds) -> Iterable[Finding]:
    """The script exports them itself, so an unset one is a note; another value is not."""
    from certify.resolver.rules.determinism import unset

    variables = facts.stack.variables
    if unset(facts):
        yield _finding(needs, "variables", INFO, "HCCL_DETERMINISTIC", "determinism-unset")
    for name, wanted in needs.env.items():
        value = variables.get(name)
        if value is None:
            if name == "TRAINING_BACKEND":
                yield _finding(
                    needs, "recipe-pins", INFO, name, "recipe-variable-unset", name=name,
                    wanted=wanted,
                )  # fmt: skip
        elif value != str(wanted):
            yield _finding(
                needs, "recipe-pins", ERROR if name == "TRAINING_BACKEND" else WARNING, name,
                "recipe-variable", name=name, value=value, wanted=str(wanted),
            )  # fmt: skip
