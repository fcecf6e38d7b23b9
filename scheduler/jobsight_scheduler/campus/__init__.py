"""A campus grid: machines whose owners come and go, and a dedicated cluster beside it (docs/ranking.md)."""
