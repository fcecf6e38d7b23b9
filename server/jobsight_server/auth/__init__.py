"""Access control: tokens, MUNGE credentials, and login sessions for people."""
