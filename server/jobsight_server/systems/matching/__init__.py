"""Resources, matches and waiting jobs in the database."""
