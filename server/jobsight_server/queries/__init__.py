"""What the API answers and the pages show, as records: a module per noun, which declares and reads them.

Each function takes a connection and reads only. Times are UTC epoch seconds, units are in the names; None means
that there is no value, never zero.
"""
