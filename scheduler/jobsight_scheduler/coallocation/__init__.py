"""Jobs spread over clusters that share uplinks (docs/use/definitions.md, Co-allocation)."""
