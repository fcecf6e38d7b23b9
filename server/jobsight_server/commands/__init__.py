"""One module per command of ``jobsight``."""
