"""What commands print on a terminal of 80 columns."""
