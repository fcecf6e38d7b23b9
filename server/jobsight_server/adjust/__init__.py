"""Changes memory and time of jobs that wait, by the scheduler's own commands, within the site's limits."""
