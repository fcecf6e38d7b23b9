"""Shared parts of commands: arguments, help, progress and worker processes."""
