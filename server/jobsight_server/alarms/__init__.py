"""Alarms: what is wrong now, and a message at the beginning and at the end of each."""
