"""Release 0.2, the first one of upgrades: new databases get the declared tables."""

revision = "0032"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database is upgraded to this release."""
