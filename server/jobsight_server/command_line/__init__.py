"""Shared by commands: arguments, help, and a simulation with progress that can be interrupted."""
