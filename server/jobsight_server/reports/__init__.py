"""Terminal output of commands, 80 columns wide."""
