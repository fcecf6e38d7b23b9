"""What running jobs have used so far; the name of a field in stored answers"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None

_RENAME = "UPDATE series SET answer = replace(answer, '\"{0}\":', '\"{1}\":')"


def upgrade() -> None:
    op.create_table(
        "running_use",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("memory", sa.Double(), nullable=True),
        sa.Column("idle_bytes", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["jobs.id"], name=op.f("fk_running_use_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_running_use")),
        sqlite_with_rowid=False,
    )
    # No text in a stored answer is from outside, so that nothing else can look like this field.
    op.execute(_RENAME.format("exceeds", "exceed_probability"))


def downgrade() -> None:
    op.execute(_RENAME.format("exceed_probability", "exceeds"))
    op.drop_table("running_use")
