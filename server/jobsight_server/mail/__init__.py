"""The weekly mail: to users about their unused memory, to administrators about present faults."""
