"""What the recommended reservations would have freed: totals of all finished jobs, by day and by month."""
