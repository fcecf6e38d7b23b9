"""Experiments that can be done again: which runs there are, what each gives, what follows from all."""
