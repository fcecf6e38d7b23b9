"""The fingerprint of an accounting file in columns of its own; ``tallies`` is ``event_counts``"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_files = sa.table(
    "accounting_files",
    sa.column("cluster"),
    sa.column("path"),
    sa.column("offset"),
    sa.column("head_digest"),
    sa.column("content_digest"),
    sa.column("stat"),
)
_HEAD_BYTES = 4096  # how much of a file its fingerprint began with


def upgrade() -> None:
    _rename_counts("tallies", "event_counts")
    op.execute("ALTER TABLE accounting_files RENAME COLUMN fingerprint TO head_digest")
    for name in ("content_digest", "stat"):
        op.add_column("accounting_files", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    for row in op.get_bind().execute(sa.select(_files)).all():
        digests, _, stat = row.head_digest.partition("@")
        _, head, content = [*digests.split(":"), "", ""][:3]
        _update(row, head_digest=head, content_digest=content, stat=stat)


def downgrade() -> None:
    _rename_counts("event_counts", "tallies")
    for row in op.get_bind().execute(sa.select(_files)).all():
        length = min(row.offset, _HEAD_BYTES)
        _update(row, head_digest=f"{length}:{row.head_digest}:{row.content_digest}@{row.stat}")
    op.execute("ALTER TABLE accounting_files RENAME COLUMN head_digest TO fingerprint")
    with op.batch_alter_table("accounting_files") as table:  # an SQLite before 3.35 cannot drop a column
        for name in ("content_digest", "stat"):
            table.drop_column(name)


def _update(row: sa.Row[Any], **values: str) -> None:
    key = (_files.c.cluster == row.cluster) & (_files.c.path == row.path)
    op.get_bind().execute(sa.update(_files).where(key).values(values))


def _rename_counts(old: str, new: str) -> None:
    op.rename_table(old, new)
    if op.get_bind().dialect.name != "sqlite":
        op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT pk_{old} TO pk_{new}")
