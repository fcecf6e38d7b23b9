"""Jobs to be scheduled: read from traces, brought into one form."""
