"""Jobs spread over clusters that share uplinks: how they slow each other down, and who is spread (DEFINITIONS 5)."""
