"""``jobsight serve``: three roles as processes of their own, started, watched and stopped together."""
