"""Machines: how long they stay available, how jobs end on them, and which is best for a job (docs/ranking.md)."""
