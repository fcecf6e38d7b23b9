"""Jobs are found by their id alone, and a user's last ones without sorting all of them"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

_IS_TASK = sa.text("array_task IS NOT NULL")


def upgrade() -> None:
    op.drop_index(op.f("ix_jobs_array_task"), "jobs")
    op.create_index(
        op.f("ix_jobs_array_task"), "jobs", ["array_task"], sqlite_where=_IS_TASK, postgresql_where=_IS_TASK
    )
    op.create_index(op.f("ix_jobs_job_id"), "jobs", ["job_id"])
    op.create_index(op.f("ix_jobs_cluster_user_id"), "jobs", ["cluster", "user", "id"])
