"""What users leave unused, and what changed requests have freed: kept sums, and records made of them."""
