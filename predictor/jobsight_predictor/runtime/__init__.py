"""Run-time risk: the used share of the requested time, and the probability that a job finishes within a gap."""
