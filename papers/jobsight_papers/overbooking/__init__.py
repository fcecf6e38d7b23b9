"""Jobs accepted into gaps shorter than they request (docs/papers/overbooking.md)."""
