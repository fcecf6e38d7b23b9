"""Reliability of machines: when each is available, how jobs end on it, and its rank for a job (docs/ranking.md)."""
