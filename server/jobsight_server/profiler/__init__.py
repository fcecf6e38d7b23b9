"""What a finished job used, by its nodes' readings and the accounting log (docs/use/definitions.md, Measurement)."""
