"""Which published rows fit a cluster, in the order of the published advice.

Pure: rows, scripts and today's date come in, a ranking and the reasons against the others go out.
The advice: Mcore first where its row is Pass, FSDP2 for needs that are native to PyTorch; branches
out of maintenance and the Legacy backend last. The support list assumes 64 GB an NPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certify.recipes.variants import variants_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from certify.recipes.load import Recipe
    from certify.recipes.rows import Branch, Row
    from certify.recipes.variants import Variant

# The memory of an NPU that the support list assumes, MB.
LIST_MEMORY_MB = 65536
# Which scripts of a row serve a stage: the keys of `variants`, and the row's own stage.
STAGES = {"pretrain": "pretrain", "sft": "tune", "lora": "lora", "dpo": "dpo"}
# What each reason says of the rows that it speaks against; the keys are an interface (--json).
REASONS = {
    "product": "for another product",
    "stage": "no script for this stage",
    "sequence": "published for shorter sequences only",
    "cluster": "more NPUs needed than this cluster has",
    "node": "more NPUs needed in one node",
    "memory": "more memory needed an NPU",
    "plan": "not by the memory plan",
    "same-script": "the same script as a row above",
}
# Differences between list and script that matter to whoever chooses.
_FIELDS = ("cluster", "seq_length", "backend")


@dataclass(frozen=True)
class Wanted:
    """What somebody has and wants.

    product: A2, A3 or A5 (another family fits no row); nodes, npus_per_node: the cluster;
    seq_length: tokens; stage: a key of `STAGES`; pytorch_native: FSDP2 before Mcore;
    memory_mb: memory of one NPU, None where only the product is known.
    """

    product: str
    nodes: int
    npus_per_node: int
    seq_length: int
    stage: str = "pretrain"
    pytorch_native: bool = False
    memory_mb: int | None = None

    @property
    def world_size(self) -> int:
        return self.nodes * self.npus_per_node


@dataclass(frozen=True)
class Offer:
    """One script of one row, and what it needs.

    nodes, npus_per_node: the larger of list and script, as a smaller cluster fails with one of
    them (a variant needs what its own script says). recipe: the id of the recipe that is offered.
    """

    row: Row
    stage: str
    script: str
    branch: str
    product: str
    seq_length: int
    nodes: int
    npus_per_node: int
    recipe: str = ""
    differs: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        return self.nodes * self.npus_per_node


@dataclass(frozen=True)
class Reason:
    """Why an offer does not fit. code: a key of `REASONS`; detail: in a few words."""

    code: str
    detail: str


@dataclass(frozen=True)
class Remark:
    """What a fit check says of an offer that it does not speak against."""

    text: str


@dataclass(frozen=True)
class Suggestion:
    """An offer that fits. retired_on: end of maintenance of its branch (ISO), when past."""

    offer: Offer
    retired_on: str | None
    notes: tuple[str, ...]

    @property
    def standing(self) -> str:
        """``current``, ``retired`` (branch out of maintenance) or ``legacy`` (backend gone)."""
        if self.offer.row.backend == "legacy":
            return "legacy"
        return "retired" if self.retired_on else "current"


@dataclass(frozen=True)
class Refused:
    """A row of which no script fits, with the reasons of the one that came nearest."""

    row: Row
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Recommendation:
    """fitting: best first; refused: in the order of the list."""

    fitting: tuple[Suggestion, ...]
    refused: tuple[Refused, ...]


Fits = Callable[["Offer", "Wanted"], "Reason | Remark | None"]


def published_fit(_offer: Offer, wanted: Wanted) -> Reason | Remark | None:
    """Does the memory of one NPU carry the offer, by the list's own minimum of 64 GB?

    The place of a fit check by a memory plan (`certify.recipes.fit`): any function of this
    signature can be given to `recommend`. None or a remark: nothing speaks against the offer.
    """
    if wanted.memory_mb is None or wanted.memory_mb >= LIST_MEMORY_MB:
        return None
    have, need = wanted.memory_mb // 1024, LIST_MEMORY_MB // 1024
    return Reason("memory", f"{need} GB assumed, {have} GB here")


def offers_of(row: Row, recipe: Recipe, stage: str) -> list[Offer]:
    """The scripts of a row that serve a stage, each with what it needs."""
    cluster = (row.nodes, row.npus_per_node)
    stated = (recipe.cluster.nodes or row.nodes, recipe.cluster.npus_per_node or row.npus_per_node)
    nodes, npus = max(cluster, stated, key=lambda pair: pair[0] * pair[1])
    wanted, branch = STAGES[stage], recipe.source.branch or row.supported_until
    differs = tuple(
        f"list says {one['published']}, script {one['script']} ({one['field']})"
        for one in recipe.differences
        if one["field"] in _FIELDS
    )
    own = Offer(
        row=row,
        stage=stage,
        script=recipe.source.path,
        branch=branch,
        product=row.product,
        seq_length=row.seq_length,
        nodes=nodes,
        npus_per_node=npus,
        recipe=recipe.id,
        differs=differs,
    )
    found = [own] if recipe.stage == wanted else []
    # Other pretraining scripts of the folder are those of other rows.
    return found + [_offer(row, stage, one) for one in variants_of(recipe) if one.stage == wanted]


def _offer(row: Row, stage: str, variant: Variant) -> Offer:
    nodes, npus = (int(part) for part in variant.cluster.split("x"))
    return Offer(
        row=row,
        stage=stage,
        script=variant.path,
        branch=variant.branch,
        product=variant.product or row.product,
        seq_length=int(variant.seq_length),
        nodes=nodes,
        npus_per_node=npus,
        recipe=variant.id,
    )


def reasons_against(
    offer: Offer, wanted: Wanted, fits: Fits
) -> tuple[tuple[Reason, ...], tuple[str, ...]]:
    """Everything that keeps an offer from fitting, empty when it fits; what else is to be said."""
    found = []
    if offer.product not in ("", wanted.product):
        found.append(Reason("product", offer.product))
    if offer.seq_length < wanted.seq_length:
        found.append(Reason("sequence", f"{offer.seq_length // 1024}k"))
    if offer.world_size > wanted.world_size:
        found.append(Reason("cluster", f"{offer.nodes}x{offer.npus_per_node}"))
    elif offer.npus_per_node > wanted.npus_per_node:
        found.append(Reason("node", f"{offer.nodes}x{offer.npus_per_node}"))
    if found:
        return tuple(found), ()
    answer = fits(offer, wanted)
    if isinstance(answer, Reason):
        return (answer,), ()
    return (), (answer.text,) if answer else ()


def _notes(offer: Offer, wanted: Wanted) -> tuple[str, ...]:
    notes = list(offer.differs)
    if not offer.product:
        notes.append("the list states no product")
    if offer.seq_length > wanted.seq_length:
        notes.append(f"made for {offer.seq_length // 1024}k, longer than asked")
    if offer.world_size < wanted.world_size:
        notes.append(f"made for {offer.world_size} of the {wanted.world_size} NPUs")
    return tuple(notes)


def _rank(suggestion: Suggestion, wanted: Wanted) -> tuple[int, ...]:
    """Smaller is better: standing, backend and status, length, cluster, place in the list."""
    offer = suggestion.offer
    passed = offer.row.status == "Pass"
    native = offer.row.backend == "fsdp2"
    if wanted.pytorch_native:
        tier = (0 if native else 2) + (0 if passed else 1)
    else:
        tier = (0 if passed else 2) + (1 if native else 0)
    return (
        ("current", "retired", "legacy").index(suggestion.standing),
        tier,
        offer.seq_length - wanted.seq_length,
        wanted.world_size - offer.world_size,
        offer.row.row,
    )


def recommend(
    wanted: Wanted,
    offers: Mapping[Row, Sequence[Offer]],
    branches: Mapping[str, Branch],
    today: date,
    fits: Fits = published_fit,
) -> Recommendation:
    """Rank the rows that fit, one script each, and say what speaks against the others.

    offers: the scripts of every row that serve the wanted stage (none: the stage is the reason).
    """
    fitting, refused = [], []
    for row, scripts in offers.items():
        judged = [(*reasons_against(offer, wanted, fits), offer) for offer in scripts]
        retired_on = branches[row.supported_until].retired_on(today)
        good = [
            Suggestion(offer, retired_on, (*_notes(offer, wanted), *remarks))
            for reasons, remarks, offer in judged
            if not reasons
        ]
        if good:
            fitting.append(min(good, key=lambda one: _rank(one, wanted)))
        elif judged:
            refused.append(Refused(row, min((reasons for reasons, _, _ in judged), key=len)))
        else:
            refused.append(Refused(row, (Reason("stage", row.backend),)))
    fitting.sort(key=lambda one: _rank(one, wanted))
    fitting, doubles = _once_each(fitting)
    refused = sorted([*refused, *doubles], key=lambda one: one.row.row)
    return Recommendation(tuple(fitting), tuple(refused))


def _once_each(ranked: Sequence[Suggestion]) -> tuple[list[Suggestion], list[Refused]]:
    """Rows of one model may share a tuning script: the best row keeps it."""
    kept: dict[tuple[str, str], Suggestion] = {}
    doubles = []
    for one in ranked:
        first = kept.setdefault((one.offer.branch, one.offer.script), one)
        if first is not one:
            doubles.append(Refused(one.offer.row, (Reason("same-script", first.offer.row.id),)))
    return list(kept.values()), doubles


def folded(refused: Iterable[Refused]) -> dict[str, list[tuple[str, str]]]:
    """Reason code -> (row id, detail), each row under its first reason, most frequent first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for one in refused:
        first = one.reasons[0]
        groups.setdefault(first.code, []).append((one.row.id, first.detail))
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))
