"""Measured use of finished jobs, from their nodes' readings and the accounting log (docs/use/definitions.md,
Measurement).
"""
