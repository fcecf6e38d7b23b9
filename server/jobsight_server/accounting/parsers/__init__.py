"""One parser for each scheduler: from a record of its accounting log to a ``JobEvent``."""
