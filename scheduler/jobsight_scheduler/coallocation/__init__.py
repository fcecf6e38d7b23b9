"""Jobs spread over clusters that share uplinks (docs/definitions.md, Co-allocation)."""
