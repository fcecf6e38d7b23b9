"""Resources and matches in the database: what there is, who holds what, which jobs wait."""
