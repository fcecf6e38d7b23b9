"""Read models: what the API answers and the pages show, as plain dictionaries that JSON can hold.

Each function takes a connection and reads only. Times are UTC epoch seconds, units are in the names; None means
that there is no value, never zero.
"""
