"""${message}."""
# Forwards only: results are evidence, and going back would drop some.

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "${up_revision}"
down_revision = ${'None' if down_revision is None else '"' + down_revision + '"'}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
