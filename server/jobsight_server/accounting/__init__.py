"""Reads the accounting logs of schedulers into runs of jobs: one parser per scheduler, one store for all."""
