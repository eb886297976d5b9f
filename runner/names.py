"""Names of a model's tensors: as published on disk, and in memory.

Published checkpoints hold a matrix for each expert; transformers 5 holds one tensor for all, and
some families have other names in memory. transformers keeps that difference as conversion
tables of its own and can apply them backwards: each tensor's conversion is found by converting
a tensor of row numbers and looking where every row went. Nothing about a family is written here,
and a conversion that does more than stack experts and join rows is refused rather than guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from certify.errors import UsageError
from runner.compat import to_published_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Table = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Names:
    """The conversion of one model.

    fused: name of a tensor [experts, rows, ...] in memory -> published names [expert][part]; the
    parts are equal in shape and follow each other along the rows. renamed: name in memory -> the
    published name of the same tensor. What stands in neither has one name.
    """

    fused: Mapping[str, Table] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def published(self, name: str) -> Table | None:
        """Published names [expert][part] of a fused tensor, or None for a plain one."""
        return self.fused.get(name)

    def plain(self, name: str) -> str:
        """The published name of a tensor that is not fused."""
        return self.renamed.get(name, name)

    def all_published(self, name: str) -> list[str]:
        """Every published name that a tensor in memory comes from."""
        table = self.published(name)
        return [self.plain(name)] if table is None else [part for row in table for part in row]

    def published_dims(self, name: str, n_dims: int) -> int:
        """Dimensions that a parameter has as published."""
        return n_dims - 1 if name in self.fused else n_dims

    def to_published(self, name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """(published name, full tensor) of one full tensor in memory."""
        table = self.published(name)
        if table is None:
            yield self.plain(name), tensor
            return
        for expert, parts in enumerate(table):
            yield from zip(parts, tensor[expert].chunk(len(parts)), strict=True)


def names_of(model: Any) -> Names:
    """The conversion of a whole model, before anything divides its tensors.

    A class of our own states it as ``published_names``. Raises UsageError for a conversion that
    is neither a renaming nor stacked experts.
    """
    own = getattr(model, "published_names", None)
    if own is not None:
        found: Names = own()
        return found
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    marks = {name: torch.empty((), device="meta") for name in shapes}
    # Renamings hand the very object on; a conversion needs a tensor of the right form, and fails
    # or makes another one of a scalar.
    renamed: dict[str, str] = {}
    converted: list[str] = []
    try:
        name_of = {id(mark): name for name, mark in marks.items()}
        for published, mark in to_published_names(model, dict(marks)).items():
            renamed[name_of.pop(id(mark))] = published
        converted = list(name_of.values())
    except (RuntimeError, IndexError, KeyError, ValueError, AttributeError, TypeError):
        renamed, converted = {}, list(shapes)
    fused: dict[str, Table] = {}
    for name in converted:
        table = _traced(model, name, shapes[name])
        if isinstance(table, str):
            renamed[name] = table
        else:
            fused[name] = table
    return Names(fused, {name: other for name, other in renamed.items() if name != other})


def _traced(model: Any, name: str, shape: torch.Size) -> Table | str:
    """Where each row of one tensor goes: published names [expert][part], or a single name."""
    if len(shape) < 3:
        rows = torch.arange(shape[0] if shape else 1).view(-1, *(1 for _ in shape[1:]))
        found = to_published_names(model, {name: rows if shape else rows[0]})
        if len(found) == 1:
            published, whole = next(iter(found.items()))
            if torch.equal(whole.flatten(), rows.flatten()):
                return published
        raise _unknown(model, name)
    n_experts, n_rows = shape[:2]
    rows = torch.arange(n_experts * n_rows).view(n_experts, n_rows, *(1 for _ in shape[2:]))
    # Two columns: some versions drop dimensions of size one.
    rows = rows.expand(n_experts, n_rows, *(2 for _ in shape[2:])).contiguous()
    parts: dict[int, dict[int, str]] = {}
    for published, part in to_published_names(model, {name: rows}).items():
        if part.shape == rows.shape and torch.equal(part, rows):
            return published
        first = int(part.flatten()[0])
        expected = torch.arange(first, first + part.shape[0])
        expected = expected.view(-1, *(1 for _ in shape[2:])).expand(-1, *(2 for _ in shape[2:]))
        if part.shape != expected.shape or not torch.equal(part, expected):
            raise _unknown(model, name)
        parts.setdefault(first // n_rows, {})[first % n_rows] = published
    table = tuple(tuple(name for _, name in sorted(parts[e].items())) for e in sorted(parts))
    starts = [n_rows // len(table[0]) * i for i in range(len(table[0]))] if table else []
    if len(table) != n_experts or any(sorted(p) != starts for p in parts.values()):
        raise _unknown(model, name)
    return table


def _unknown(model: Any, name: str) -> UsageError:
    return UsageError(
        f"no conversion between the published form of {name} and its form in memory",
        where=f"model_type {model.config.model_type!r} ({type(model).__name__})",
        expected="equal tensors under another name, or experts stacked into one tensor",
    )
