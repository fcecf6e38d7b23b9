"""The records that the API returns and the pages show: a module per noun, which declares and reads them.

Each function takes a connection and only reads. Times are UTC epoch seconds, units are in the names; None means
that there is no value, never zero.
"""
