"""Which machine of an emulated campus grid a job should start on (README.md)."""
