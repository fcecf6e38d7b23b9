"""Jobs accepted into gaps shorter than they request (docs/overbooking.md)."""
