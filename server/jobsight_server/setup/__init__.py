"""Installs Jobsight beside a scheduler: reads the site, plans, shows, applies, and can undo it."""
