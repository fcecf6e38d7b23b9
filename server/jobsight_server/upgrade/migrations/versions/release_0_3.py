"""Release 0.3: one step upgrades its databases and those of 0.2 to the declared tables."""

revision = "0.3"
down_revision = "0032"


def upgrade() -> None:
    """Do nothing: `release_0_4` starts from the tables of either release."""
