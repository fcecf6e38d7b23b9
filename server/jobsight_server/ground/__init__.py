"""What has no noun: answers, amounts, errors, names and ids of jobs, counted events, periodic work.

Imports nothing else of the server.
"""
