"""A plan of jobs over processors and time, and the acceptance of jobs (docs/use/definitions.md, Overbooking)."""
