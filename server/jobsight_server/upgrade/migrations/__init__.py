"""The environment and the versions that Alembic loads by their files."""
