"""Learning of finished runs: profiled, learned, and added to the sums."""
