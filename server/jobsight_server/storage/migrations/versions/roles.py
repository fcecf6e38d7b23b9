"""Logins and tokens of users

Sessions of a token of role admin, and those without a user, are an administrator's, as before.
"""

import sqlalchemy as sa
from alembic import op

revision = "roles"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("user", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("user", sa.Text(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore the backup")
