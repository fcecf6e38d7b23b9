"""The site's queue again: its machines, and its finished jobs under other run times, memory and placements."""
