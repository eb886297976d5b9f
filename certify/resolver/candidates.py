"""Which values a component may take in the search: the installed one, then declared ones."""

from __future__ import annotations

from certify.versions import release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from certify.resolver.claims import Claims, Statement
    from certify.resolver.model import Context

# Components of which ranges speak: any version that is named, or an open end, may do.
BY_RANGE = ("numpy", "transformers", "tokenizers", "accelerate", "deepspeed", "peft", "python")
Row = dict[str, str]
Relations = dict[str, list[tuple[int, "Mapping[str, str]"]]]


class Candidates:
    """Candidate values, nearest to what is installed first. Arguments as for `search.Search`."""

    def __init__(
        self,
        claims: Claims,
        have: Mapping[str, str],
        context: Context,
        keep: Collection[str],
        target: Mapping[str, str],
        relations: Relations,
    ) -> None:
        self.claims = claims
        self.have = have
        self.context = context
        self.keep = keep
        self.target = target
        self.relations = relations
        torch = claims.version("torch", have.get("torch", ""))
        self._installed_torch = release(torch) if torch else ()
        self._distances: dict[str, int] = {}
        self._ranges: dict[str, list[str]] = {}
        self._wheels_of: dict[tuple[int, ...] | None, list[str]] = {}
        self._trains_of: dict[str, tuple[tuple[int, ...], ...]] = {}
        self._pairing_rows: Sequence[Statement] | None = None

    def values(self, key: str, row: Row) -> list[str]:
        """Candidates for one component: the installed value, then declared ones, nearest first."""
        if key in self.target:
            return [self.target[key]]
        current = self.have.get(key)
        if key in self.keep and current is not None:
            return [current]
        values = dict.fromkeys([current] if current is not None else [])
        if key in ("cann_ops", "nnal") and "cann" in row:
            values.setdefault(row["cann"])
        elif key == "torch" and "torch_npu" in row:
            values.setdefault(self._torch_of(row["torch_npu"]))
        elif key == "cann":
            values.update(dict.fromkeys(self._canns()))
        elif key == "torch_npu":
            values.update(dict.fromkeys(self._wheels(row)))
        else:
            values.update(dict.fromkeys(self._declared(key, row)))
            if key in BY_RANGE or (key == "torch" and "torch_npu" not in row):
                values.update(dict.fromkeys(self._by_range(key)))
        return list(values)

    def _by_range(self, key: str) -> list[str]:
        """Named versions, then open ends of ranges, nearest first."""
        found = self._ranges.get(key)
        if found is None:
            named = self.claims.named(key)
            exact = {raw: v for raw, v in named.items() if raw[0] not in "<>"}
            ends = {raw: v for raw, v in named.items() if raw[0] in "<>"}
            found = [*self._nearest(key, exact), *self._nearest(key, ends)]
            self._ranges[key] = found
        return found

    def _torch_of(self, wheel: str) -> str:
        version = self.claims.version("torch_npu", wheel)
        return ".".join(map(str, (*release(version), 0, 0)[:3])) if version else wheel

    def _rows(self) -> Sequence[Statement]:
        """The current pairing rows of torch_npu."""
        if self._pairing_rows is None:
            self._pairing_rows = [
                statement
                for statement in self.claims.index("torch_npu", "cann").all
                if statement.claim.kind == "reference"
                and statement.claim.state == "current"
                and statement.scope == "torch_npu"
            ]
        return self._pairing_rows

    def _canns(self) -> list[str]:
        """CANN releases with a pairing row, newest first."""
        found = {
            value.raw: value
            for statement in self._rows()
            for value in statement.object.values
            if not value.is_prerelease
        }
        return sorted(found, key=lambda raw: found[raw].key, reverse=True)

    def _wheels(self, row: Row) -> list[str]:
        """Wheels paired with the chosen CANN; for the installed CANN also those that may fit it.
        The release of torch that is there comes first."""
        stays = row.get("cann") == self.have.get("cann")
        cann = self.claims.version("cann", row["cann"]) if "cann" in row else None
        train = None if cann is None or stays else cann.train
        if train not in self._wheels_of:
            found = {
                value.raw: value
                for statement in self._rows()
                if train is None or train in self._trains(statement)
                for value in statement.subject.values
            }
            near = sorted(found, key=lambda raw: found[raw].key, reverse=True)
            self._wheels_of[train] = sorted(near, key=self.torch_distance)
        return self._wheels_of[train]

    def _trains(self, statement: Statement) -> tuple[tuple[int, ...], ...]:
        """The CANN trains of a pairing row; a wildcard names its own."""
        known = self._trains_of.get(statement.claim.id)
        if known is not None:
            return known
        values = tuple(value.train for value in statement.object.values)
        numbers = tuple(part for part in statement.object.text.split(".")[:2] if part.isdigit())
        return self._trains_of.setdefault(statement.claim.id, values or (tuple(map(int, numbers)),))

    def torch_distance(self, wheel: str) -> int:
        """How far a wheel's torch is from the torch and the wheel that are installed."""
        away = self._distances.get(wheel)
        if away is None:
            place = _place(self._release_of(wheel))
            olds = (self._installed_torch, self._release_of(self.have.get("torch_npu", "")))
            away = sum(abs(place - _place(old)) for old in olds if old)
            self._distances[wheel] = away
        return away

    def _release_of(self, wheel: str) -> tuple[int, ...]:
        version = self.claims.version("torch_npu", wheel)
        return release(version) if version else ()

    def _declared(self, key: str, row: Row) -> list[str]:
        """Exact values that claims declare with what is already chosen, nearest first."""
        found: dict[str, Any] = {}
        for _, relation in self.relations[key]:
            other = relation["object"] if relation["subject"] == key else relation["subject"]
            version = self.claims.version(other, row[other]) if other in row else None
            if version is None:
                continue
            for statement in self.claims.index(relation["subject"], relation["object"]).all:
                mine, its = statement.subject, statement.object
                if relation["object"] == key:
                    mine, its = its, mine
                if (
                    statement.positive
                    and statement.claim.state == "current"
                    and its.matches(version)
                    and self.claims.applies(statement.claim, self.context)
                ):
                    found.update((value.raw, value) for value in (*mine.values, *mine.bounds))
        return self._nearest(key, found)

    def _nearest(self, key: str, found: Mapping[str, Any]) -> list[str]:
        """Upwards from the installed value, then downwards; newest first when nothing is there."""
        current = self.claims.version(key, self.have.get(key, ""))
        ordered = sorted(found, key=lambda raw: found[raw].key)
        if current is None:
            return ordered[::-1]
        above = [raw for raw in ordered if found[raw].key >= current.key]
        below = [raw for raw in ordered if found[raw].key < current.key]
        return [*above, *below[::-1]]

    def moves_torch(self, wheel: str) -> bool:
        """Whether an installed torch has to move with this wheel."""
        return bool(self._installed_torch) and self._release_of(wheel) != self._installed_torch


def _place(numbers: tuple[int, ...]) -> int:
    """A release of torch as a number: minor releases count a hundred times a patch."""
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major * 10000 + minor * 100 + patch
