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
    r"""Return external text with escapes, as of JSON, for characters that command a terminal or hide others.

    These are controls (C0, C1), those of direction, and separators and formats of no width.

    >>> escaped("a\x1b[2J \x9b2J \u202eb\u200b \U000e0041 é")
    'a\\x1b[2J \\u009b2J \\u202eb\\u200b \\udb40\\udc41 é'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def escaped_lines(text: str) -> str:
    """Return ``text`` with the same escapes, except of tabs and ends of lines."""
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.split("\n"))


def _escape(character: str) -> str:
    if character < "\x7f":
        return character.encode("unicode_escape").decode()
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _latin_1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_BY_BYTE, _latin_1)
