"""Cached reference trajectories in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.store.base import Base, number
from certify.store.models import ReferenceRow
from certify.store.rows import Reference

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class References(Base):
    """The methods of the store that concern cached references."""

    def get_reference(self, digest: str) -> Reference | None:
        """The cached reference of this digest, or None."""
        return self.database.read(lambda s: _reference(s.get(ReferenceRow, digest)))

    def put_reference(self, digest: str, folder: str, aa_sd: float | None = None) -> Reference:
        """Add or replace a cached reference."""
        reference = Reference(digest, folder, self._clock(), number(aa_sd))

        def work(session: Session) -> Reference:
            session.merge(ReferenceRow(**vars(reference)))
            return reference

        return self.database.write(work)

    def forget_reference(self, digest: str) -> None:
        """Drop a cached reference from the store (its folder is not touched)."""

        def work(session: Session) -> None:
            if (row := session.get(ReferenceRow, digest)) is not None:
                session.delete(row)

        self.database.write(work)


def _reference(row: ReferenceRow | None) -> Reference | None:
    if row is None:
        return None
    return Reference(**{name: getattr(row, name) for name in Reference.__dataclass_fields__})
