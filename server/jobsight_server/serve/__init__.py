"""``jobsight serve``: three roles in separate processes, started, watched and stopped together."""
