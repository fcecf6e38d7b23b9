"""What a finished job used, by its nodes' readings and the accounting log (docs/definitions.md, Measurement)."""
