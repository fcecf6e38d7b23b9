"""Jobs have the application that their name stands for, so that they are found and counted by it"""

import sqlalchemy as sa
from alembic import op

from jobsight_server.facts import application

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_NAMES = sa.table("application_of", sa.column("name"), sa.column("application"))
_AT_ONCE = 10_000


def upgrade() -> None:
    op.add_column("jobs", sa.Column("application", sa.Text(), nullable=True))
    connection = op.get_bind()
    # No primary key: PostgreSQL does not accept index entries above 2,704 bytes.
    op.execute("CREATE TEMPORARY TABLE application_of (name TEXT, application TEXT)")
    names = connection.scalars(sa.text("SELECT DISTINCT name FROM jobs WHERE name IS NOT NULL")).all()
    rows = [{"name": name, "application": application(name)} for name in names]
    for begin in range(0, len(rows), _AT_ONCE):
        connection.execute(sa.insert(_NAMES), rows[begin : begin + _AT_ONCE])
    op.execute("UPDATE jobs SET application = a.application FROM application_of a WHERE a.name = jobs.name")
    op.execute("DROP TABLE application_of")
    columns, ended = ["cluster", "user", "application", "end"], sa.text("state = 'ended'")
    op.create_index("ix_jobs_cluster_user_application_end", "jobs", columns, sqlite_where=ended, postgresql_where=ended)


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
