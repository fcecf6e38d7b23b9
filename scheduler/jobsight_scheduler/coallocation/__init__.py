"""Jobs spread over clusters that share uplinks: who is spread, who is slowed (docs/definitions.md, Co-allocation)."""
