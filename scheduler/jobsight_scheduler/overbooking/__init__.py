"""A plan of jobs over processors and time, and which jobs to accept into it (docs/use/definitions.md, Overbooking)."""
