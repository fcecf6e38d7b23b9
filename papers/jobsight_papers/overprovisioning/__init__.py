"""Jobs given the memory that they need instead of what they request (docs/papers/overprovisioning.md)."""
