"""The search for the cheapest assignment: depth first, base stack first, nearest value first.

Cut off as soon as a branch cannot beat the best plan found: by cost, and at equal cost by how near
its base (CANN, torch_npu, torch) is to what was there.
"""

from __future__ import annotations

from collections import namedtuple

from certify.resolver.candidates import BY_RANGE, Candidates
from certify.resolver.model import INCOMPATIBLE, REFERENCE, UNDECLARED, Context, PairResult
from certify.resolver.pairs import completed, judge
from certify.resolver.trains import hdk_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import NamedTuple

    from certify.resolver.claims import Claims

BASE = ("cann", "torch_npu", "torch")
# What comes later follows from what comes first.
ORDER = (
    *BASE, "torchvision", "hdk", "cann_ops", "nnal", "triton_ascend", "triton", "python",
    "mindspeed_llm", "mindspeed_core", "megatron", "vllm_ascend", "vllm", "llamafactory", "verl",
    "transformers", "tokenizers", "accelerate", "deepspeed", "peft", "numpy", "cuda", "cuda_driver",
    "fsdpturbo", "fla_npu",
)  # fmt: skip
# The value of a package that has to be removed.
REMOVED = "none"
# Values of one component that are followed further, when they fit what is chosen so far.
_MOST = 12
# Not movable here: hardware, the system, and facts that belong to an installed part.
FIXED = ("product", "arch", "model_type", "glibc", "torch_npu_git", "firmware")

Row = dict[str, str]


if TYPE_CHECKING:

    class _Plan(NamedTuple):
        cost: int
        nearness: tuple[int, ...]
        row: Row
else:
    _Plan = namedtuple("_Plan", "cost nearness row")


class Plan(_Plan):
    """A complete assignment. nearness: of its base to the installed one, smaller is nearer."""

    __slots__ = ()


class Search:
    """One search. have: completed components; keep: those that may not move; target: those that
    must get this value; blocked: pairs that only components which may not move could mend."""

    def __init__(
        self,
        claims: Claims,
        have: Mapping[str, str],
        context: Context,
        keep: Collection[str],
        target: Mapping[str, str],
    ) -> None:
        self.claims = claims
        self.have = have
        self.context = context
        self.keep = {*keep, *(["hdk"] if {"driver", "firmware"} & set(keep) else [])}
        self.target = target
        present = {*have, *target}
        self.order = [key for key in ORDER if key in present]
        self.base = [key for key in BASE if key in present]
        self.relations = {key: self._relations(key) for key in self.order}
        self.candidates = Candidates(claims, have, context, self.keep, target, self.relations)
        self.best: Plan | None = None
        self.blocked: dict[str, None] = {}
        self._products: dict[tuple[str, str], Row] = {}
        self._judged: dict[tuple[object, ...], PairResult | None] = {}

    def _relations(self, key: str) -> list[tuple[int, Mapping[str, str]]]:
        """The relations that can be judged once this component is chosen, with their numbers."""
        placed = {*FIXED, "torch_npu_product", *self.order[: self.order.index(key)]}
        # The product release is a property of the wheel: it is chosen with it.
        names = {key, "torch_npu_product"} if key == "torch_npu" else {key}
        return [
            (number, relation)
            for number, relation in enumerate(self.claims.matrix.tables["relations"])
            if {relation["subject"], relation["object"]} & names
            and {relation["subject"], relation["object"]} <= {*placed, key}
        ]

    def run(self) -> Plan | None:
        """The cheapest plan; None when what may not move contradicts itself."""
        fixed = {key: value for key, value in self.have.items() if key in FIXED}
        self._descend(0, fixed, 0, ())
        return self.best

    def _descend(self, depth: int, row: Row, cost: int, nearness: tuple[int, ...]) -> None:
        if depth == len(self.base):
            nearness = self._nearness(row)
        if self._hopeless(cost, nearness):
            return
        if depth == len(self.order):
            self.best = Plan(cost, nearness, dict(row))
            return
        key = self.order[depth]
        left = _MOST
        for value, price in self._priced(key, row, cost, nearness):
            if self._hopeless(cost + price, nearness) or self._too_far(key, value, cost + price):
                continue
            inside = {**row, key: value}
            if key == "hdk" and self._moved_freely(key, inside) and not self._of_line(value):
                continue
            if left and self._fits(key, inside):
                left -= key not in self.base
                self._descend(depth + 1, inside, cost + price, nearness)

    def _hopeless(self, cost: int, nearness: tuple[int, ...]) -> bool:
        """Whether a branch cannot beat the best plan. Until the base is chosen only cost counts."""
        if self.best is None:
            return False
        if cost != self.best.cost:
            return cost > self.best.cost
        return bool(nearness) and nearness >= self.best.nearness

    def _too_far(self, key: str, value: str, cost: int) -> bool:
        """The same for a wheel before any pair is judged: its torch has to move with it."""
        if key != "torch_npu" or self.best is None:
            return False
        away = self.candidates.torch_distance(value)
        if self.candidates.moves_torch(value):
            cost += int(self.claims.matrix.components["torch"]["cost"])
        return cost > self.best.cost or (cost == self.best.cost and away > self.best.nearness[0])

    def _priced(
        self, key: str, row: Row, cost: int, nearness: tuple[int, ...]
    ) -> Iterator[tuple[str, int]]:
        """Values with their prices. What is installed comes first and is free; the others, which
        all cost the same, are looked for only while they could still win."""
        here = self.have.get(key)
        if here is not None and key not in self.target:
            yield here, 0
            if key in self.keep:
                return
        price = self.cost(key, "", row)
        if here is not None and key not in self.target and self._hopeless(cost + price, nearness):
            return
        values = self.candidates.values(key, row)
        if key in BY_RANGE and len(values) > 1:
            # All of them cost the same: those that leave fewest pairs undeclared come first.
            values.sort(key=lambda value: self._undeclared(key, {**row, key: value}))
        for value in values:
            if value != here or key in self.target:
                yield value, self.cost(key, value, row)
        if self._must_go(key, row):
            yield REMOVED, self.cost(key, REMOVED, row)

    def _undeclared(self, key: str, row: Row) -> int:
        """How many pairs of this component no table declares."""
        judged = (self._judge(number, relation, row) for number, relation in self.relations[key])
        return sum(result is not None and result.status == UNDECLARED for result in judged)

    def _must_go(self, key: str, row: Row) -> bool:
        """Whether what is installed is excluded beside what is chosen, and may be removed."""
        here = self.have.get(key)
        if here is None or key in self.keep or key in self.target:
            return False
        if self.claims.matrix.components[key]["layer"] != "package":
            return False
        for number, relation in self.relations[key]:
            if relation["policy"] in ("exclusive", "exclude") and relation["object"] == key:
                result = self._judge(number, relation, {**row, key: here})
                if result is not None and result.status == INCOMPATIBLE:
                    return True
        return False

    def cost(self, key: str, value: str, row: Mapping[str, str]) -> int:
        """What it costs to give a component this value; partners that move along are free."""
        if value == self.have.get(key):
            return 0
        info = self.claims.matrix.components[key]
        partners = info["moves_with"].split(",")
        if any(p in row and p in self.have and row[p] != self.have[p] for p in partners):
            return 0
        return int(info["cost"])

    def _fits(self, key: str, row: Row) -> bool:
        """No pair of this component is incompatible, and none is undeclared where the relation
        demands a declaration and there is one to move to."""
        for number, relation in self.relations[key]:
            result = self._judge(number, relation, row)
            if result is None or result.status not in (INCOMPATIBLE, UNDECLARED):
                continue
            if key == "hdk" and result.status == UNDECLARED and self._moved_freely(key, row):
                # Nobody changes a driver for one that is not declared either.
                return False
            if result.status == UNDECLARED and not (relation["demand"] and result.expected):
                continue
            held = {*self.keep, *self.target, *FIXED}
            if result.status == UNDECLARED and {*result.components} <= held:
                continue
            wheel = {"torch_npu" if c == "torch_npu_product" else c for c in result.components}
            if wheel <= held:
                self.blocked.setdefault("+".join(result.components))
            return False
        return True

    def _of_line(self, value: str) -> bool:
        return hdk_lines(self.claims).may_be(self.context.product, value)

    def _moved_freely(self, key: str, row: Row) -> bool:
        return row[key] != self.have.get(key) and key not in self.target

    def _judge(self, number: int, relation: Mapping[str, str], row: Row) -> PairResult | None:
        subject, object_ = relation["subject"], relation["object"]
        if relation["needs"] and relation["needs"] not in self.have:
            return None
        git = self._git(row)
        inside: Mapping[str, str] = row
        if "torch_npu_product" in (subject, object_):
            inside = {**row, **self._product(row.get("torch_npu", ""), git)}
        if subject not in inside or object_ not in inside:
            return None
        if REMOVED in (inside[subject], inside[object_]):
            return None
        place = (number, inside[subject], inside[object_], git)
        if place not in self._judged:
            pair = {subject: inside[subject], object_: inside[object_]}
            if git:
                pair["torch_npu_git"] = git
            self._judged[place] = judge(self.claims, relation, pair, self.context, brief=True)
        return self._judged[place]

    def _product(self, wheel: str, git: str) -> Row:
        """The product release of a wheel, when it is known for certain."""
        place = (wheel, git)
        if place not in self._products:
            known = {"torch_npu": wheel, **({"torch_npu_git": git} if git else {})}
            full = completed(self.claims, known, self.context)
            product = full.get("torch_npu_product")
            self._products[place] = {"torch_npu_product": product} if product else {}
        return self._products[place]

    def _git(self, row: Mapping[str, str]) -> str:
        """The git_version, which speaks of the installed wheel only."""
        same = row.get("torch_npu") == self.have.get("torch_npu")
        return self.have.get("torch_npu_git", "") if same else ""

    def results(self, row: Row, keys: Iterable[str]) -> list[PairResult]:
        """The judged pairs of these components in a finished row."""
        answer = []
        for key in keys:
            for number, relation in self.relations.get(key, ()):
                result = self._judge(number, relation, row)
                if result is not None:
                    answer.append(result)
        return answer

    def _nearness(self, row: Row) -> tuple[int, ...]:
        """Of two bases of the same price: the release of torch that is there, then a row of
        the project itself, then a reference, then the newer wheel."""
        wheel = row.get("torch_npu", "")
        if not wheel:
            return (0,)
        pairs = [r for r in self.results(row, ["torch_npu"]) if r.components[1] == "cann"]
        reference = all(r.status == REFERENCE for r in pairs)
        # Which wheel to install is a matter of the project's own rows; one that stays is given.
        moved = wheel != self.have.get("torch_npu")
        secondary = moved and any(self._is_secondary(r) for r in pairs)
        version = self.claims.version("torch_npu", wheel)
        newer = -version.key[3] if version else 0
        return (self.candidates.torch_distance(wheel), secondary, not reference, newer)

    def _is_secondary(self, result: PairResult) -> bool:
        """Whether a pair rests on a secondary source: a fork, a thread, or marked as one."""
        row = self.claims.conflicts.get(result.conflict)
        if row:
            return row["action"] == "secondary"
        claim = self.claims.matrix.by_id.get(result.claims[0]) if result.claims else None
        return claim is not None and ("fork" in claim.source or "issues/" in claim.path)

    def standing(self) -> list[str]:
        """The pairs that do not go together as they are."""
        row = {key: self.target.get(key, self.have.get(key, "")) for key in self.order}
        row |= {key: value for key, value in self.have.items() if key in FIXED}
        bad = [r for r in self.results(row, self.order) if r.status == INCOMPATIBLE]
        return list(dict.fromkeys("+".join(r.components) for r in bad))
