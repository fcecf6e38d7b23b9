"""Which available machine a job starts on: the ranks that the experiment compares, one file per family."""
