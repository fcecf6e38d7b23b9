"""Rules for a job's memory request, and the protocols that compare them."""
