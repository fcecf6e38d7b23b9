"""Simulations that the pages start: kept in the database, run one at a time by the background role."""
