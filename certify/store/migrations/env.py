"""Run by Alembic; `certify.store.migrate` hands over the connection, inside a transaction."""

from __future__ import annotations

from alembic import context

from certify.store.migrate import VERSION_TABLE
from certify.store.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    # SQLite alters few things in place; batch mode copies the table instead.
    render_as_batch=True,
    # SQLite takes DDL in a transaction as PostgreSQL does, once the driver leaves BEGIN to us.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
