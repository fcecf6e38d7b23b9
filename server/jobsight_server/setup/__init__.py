"""Installs Jobsight beside a scheduler: reads the site, plans, shows, applies, and can take it back."""
