"""Release 0.2, where upgrades begin: a new database is made from the declared tables."""

revision = "0032"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database is upgraded to this release."""
