"""Machines: how long they stay, how jobs end on them, and which is best for a job."""
