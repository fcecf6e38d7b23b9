"""The text of a record in any encoding."""

from __future__ import annotations

import codecs

BYTE_ORDER_MARK = codecs.BOM_UTF8
"""Byte-order mark that some editors put before the first line."""

_BY_BYTE = "jobsight-latin-1"


def text_of(data: bytes) -> str:
    r"""Return ``data`` as UTF-8; each other byte becomes a character of Latin-1, which older sites use in names.

    >>> text_of(b"caf\xe9"), text_of("caf\u00e9".encode())
    ('caf\xe9', 'caf\xe9')
    """
    return data.decode("utf-8", _BY_BYTE)


def escaped(text: str) -> str:
    """Return external text without control characters, which could command a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _latin_1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_BY_BYTE, _latin_1)
