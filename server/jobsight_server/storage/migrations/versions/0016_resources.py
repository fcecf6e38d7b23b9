"""Resources and matches"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "matching_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("removal_version", sa.BigInteger(), nullable=False),
        sa.Column("definition_version", sa.BigInteger(), nullable=False),
        sa.Column("next_match", sa.Integer(), nullable=False),
        sa.Column("objectives", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_matching_state")),
    )
    op.create_table(
        "resource_types",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_resource_types")),
    )
    op.create_table(
        "resources",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("attributes", sa.Text(), nullable=False),
        sa.Column("capacities", sa.Text(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=False),
        sa.Column("is_static", sa.Boolean(), nullable=False),
        sa.Column("state_at", sa.Double(), nullable=False),
        sa.Column("owner_present", sa.Boolean(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resources")),
        sa.UniqueConstraint("name", name=op.f("uq_resources_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_resources_type"), "resources", ["type"])
    op.create_index(op.f("ix_resources_version"), "resources", ["version"])
    op.create_table(
        "resource_policies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_policies")),
    )
    op.create_table(
        "matches",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=True),
        sa.Column("class", sa.Text(), nullable=True),
        sa.Column("priority", sa.Double(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.Double(), nullable=False),
        sa.Column("matched_at", sa.Double(), nullable=True),
        sa.Column("until", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_matches")),
    )
    op.create_index(op.f("ix_matches_state_until"), "matches", ["state", "until"])
    op.create_index(op.f("ix_matches_version"), "matches", ["version"])
    op.create_table(
        "holds",
        sa.Column("match_id", sa.Integer(), nullable=False),
        sa.Column("dependency", sa.Text(), nullable=False),
        sa.Column("resource_id", sa.Integer(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("amounts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["match_id"], ["matches.id"], name=op.f("fk_holds_match_id")),
        sa.PrimaryKeyConstraint("match_id", "dependency", "resource_id", name=op.f("pk_holds")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_holds_resource_id"), "holds", ["resource_id"])


def downgrade() -> None:
    for table in ("holds", "matches", "resource_policies", "resources", "resource_types", "matching_state"):
        op.drop_table(table)
