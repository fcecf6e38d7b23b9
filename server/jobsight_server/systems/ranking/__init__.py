"""Reliability of machines: when each is there, how jobs end on it, and its rank."""
