"""Run-time risk: how much of its requested time a job uses, and how likely it is to finish within a gap."""
