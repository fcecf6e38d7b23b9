"""How jobs lately ended on machines, and when what is known of these last faded"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("sound", "failed"):
        op.add_column("machines", sa.Column(name, sa.Double(), nullable=False, server_default="0"))
    op.execute("UPDATE machines SET sound = successes, failed = failures")
    op.add_column("reliability_state", sa.Column("faded_at", sa.Double(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("reliability_state", "faded_at")
    for name in ("failed", "sound"):
        op.drop_column("machines", name)
