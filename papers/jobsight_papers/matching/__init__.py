"""Batches of jobs matched to shared resources, in process and through HTTP (README.md)."""
