"""Rules that say how much memory a job should ask for, and the protocols by which they are compared."""
