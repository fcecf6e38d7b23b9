"""Choice of a machine of an emulated campus grid for each job (README.md)."""
