"""Jobs to schedule: read from traces, brought into one form."""
