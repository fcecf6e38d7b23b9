"""What users asked for beside what jobs were given; use that is known to be more than was measured"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "asked_processors": sa.Integer(),
    "asked_memory_bytes": sa.BigInteger(),
    "asked_walltime_s": sa.Double(),
    "memory_incomplete": sa.Boolean(),
    "memory_with_cache": sa.Boolean(),
    "ended_abnormally": sa.Boolean(),
    "array_task": sa.Text(),
}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        op.add_column("jobs", sa.Column(name, kind, nullable=True))
    op.create_index(op.f("ix_jobs_array_task"), "jobs", ["array_task"])


def downgrade() -> None:
    op.drop_index(op.f("ix_jobs_array_task"), "jobs")
    for name in reversed(_COLUMNS):
        op.drop_column("jobs", name)
