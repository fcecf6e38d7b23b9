"""What reserving as recommended would have freed: totals of all finished jobs, kept by day and by month."""
