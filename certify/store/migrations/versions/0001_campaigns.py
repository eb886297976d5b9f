"""Campaigns, their runs and gate results, and the cache of references."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "campaigns",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("recipe_id", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("scale", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("criteria_version", sa.Text(), nullable=False),
        sa.Column("criteria_sha256", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("plan_sha256", sa.Text(), nullable=True),
        sa.Column("inject", sa.Text(), nullable=True),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_unix_s", sa.Double(), nullable=False),
        sa.Column("updated_unix_s", sa.Double(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("process_start", sa.Text(), nullable=False),
        sa.Column("certify_version", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_campaigns"),
    )
    op.create_index("ix_campaigns_key_status", "campaigns", ["key", "status"])
    op.create_index(
        "ix_campaigns_recipe_id_created_unix_s", "campaigns", ["recipe_id", "created_unix_s"]
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reserved_unix_s", sa.Double(), nullable=False),
        sa.Column("started_unix_s", sa.Double(), nullable=True),
        sa.Column("ended_unix_s", sa.Double(), nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("steps", sa.BigInteger(), nullable=True),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("cpu_s", sa.Double(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaigns.id"], name="fk_runs_campaign_id_campaigns"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_campaign_id", "runs", ["campaign_id"])
    op.create_table(
        "gate_results",
        sa.Column("campaign_id", sa.Text(), nullable=False),
        sa.Column("gate", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("required", sa.Boolean(), nullable=False),
        sa.Column("statistic", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("margin", sa.Double(), nullable=True),
        sa.Column("n", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"], ["campaigns.id"], name="fk_gate_results_campaign_id_campaigns"
        ),
        sa.PrimaryKeyConstraint("campaign_id", "gate", name="pk_gate_results"),
    )
    op.create_table(
        "reference_cache",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("created_unix_s", sa.Double(), nullable=False),
        sa.Column("aa_sd", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("digest", name="pk_reference_cache"),
    )
