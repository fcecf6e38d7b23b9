"""Machine reliability: availability, job outcomes, and the ranking of machines for a job."""
