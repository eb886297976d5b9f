"""The tables. Every change here needs a migration in ``migrations/versions`` (a test compares).

Within the subset common to SQLAlchemy 2.0 and 2.1, and to SQLite and PostgreSQL. Nothing outside
this package sees these classes; `certify.store.rows` holds what leaves it.
"""

from __future__ import annotations

# Not under TYPE_CHECKING: SQLAlchemy evaluates the annotations of the columns.
from typing import ClassVar, get_args

from sqlalchemy import BigInteger, Double, Enum, ForeignKey, Index, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from certify.store.rows import CampaignStatus, RunStatus

# Names for every constraint, so that a later migration can drop or alter it on any database.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


def _words(literal: object) -> Enum:
    """A text column that holds one of a Literal's words. Not a database enum and no CHECK: a new
    word must not need a new type on every server."""
    return Enum(
        *get_args(literal),
        native_enum=False,
        create_constraint=False,
        length=16,
        validate_strings=True,
    )


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map: ClassVar = {
        str: Text(),
        int: BigInteger(),
        float: Double(),
        CampaignStatus: _words(CampaignStatus),
        RunStatus: _words(RunStatus),
    }


class CampaignRow(Base):
    __tablename__ = "campaigns"
    __table_args__ = (
        Index(None, "key", "status"),
        Index(None, "recipe_id", "created_unix_s"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    recipe_id: Mapped[str]
    backend: Mapped[str]
    scale: Mapped[str]
    device: Mapped[str]
    stage: Mapped[str]
    criteria_version: Mapped[str]
    criteria_sha256: Mapped[str]
    key: Mapped[str]
    plan_sha256: Mapped[str | None]
    inject: Mapped[str | None]
    folder: Mapped[str]
    status: Mapped[CampaignStatus]
    verdict: Mapped[str | None]
    reason: Mapped[str]
    created_unix_s: Mapped[float]
    updated_unix_s: Mapped[float]
    host: Mapped[str]
    pid: Mapped[int]
    process_start: Mapped[str]
    certify_version: Mapped[str]

    runs: Mapped[list[RunRow]] = relationship(back_populates="campaign", order_by="RunRow.position")
    gates: Mapped[list[GateRow]] = relationship(
        order_by="GateRow.position", cascade="all, delete-orphan"
    )


class RunRow(Base):
    """position: place among the runs of its campaign, from 0, in the order of reservation."""

    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaigns.id"), index=True)
    position: Mapped[int]
    phase: Mapped[str]
    role: Mapped[str]
    attempt: Mapped[int]
    status: Mapped[RunStatus]
    reserved_unix_s: Mapped[float]
    started_unix_s: Mapped[float | None]
    ended_unix_s: Mapped[float | None]
    pid: Mapped[int | None]
    steps: Mapped[int | None]
    wall_s: Mapped[float | None]
    cpu_s: Mapped[float | None]
    exit_code: Mapped[int | None]
    reason: Mapped[str]

    campaign: Mapped[CampaignRow] = relationship(back_populates="runs")


class GateRow(Base):
    """position: place of the gate in the verdict, from 0."""

    __tablename__ = "gate_results"

    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaigns.id"), primary_key=True)
    gate: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    verdict: Mapped[str]
    required: Mapped[bool]
    statistic: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    margin: Mapped[float | None]
    n: Mapped[int | None]
    reason: Mapped[str]


class ReferenceRow(Base):
    __tablename__ = "reference_cache"

    digest: Mapped[str] = mapped_column(primary_key=True)
    folder: Mapped[str]
    created_unix_s: Mapped[float]
    aa_sd: Mapped[float | None]
