"""A campus grid: machines whose owners come and go (docs/ranking.md)."""
