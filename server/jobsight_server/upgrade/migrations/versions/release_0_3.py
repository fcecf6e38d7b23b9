"""Release 0.3, the earliest that is upgraded: new databases get the declared tables."""

revision = "0.3"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database is upgraded to this release."""
