"""Only the latest jobs count for and against a machine"""

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "UPDATE machines SET sound = 32 * sound / (sound + failed), failed = 32 * failed / (sound + failed) "
        "WHERE sound + failed > 32"
    )


def downgrade() -> None:
    """What was counted is not known any more."""
