"""Decides what a job should request: the evidence of its application's earlier runs, and one rule."""
