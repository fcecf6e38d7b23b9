"""Totals of bytes in the database count modulo 2**62.

A 64-bit column can hold any of them, and the sum of two, whatever a node sends; a real node gets there after decades
at 10 Gbit/s. Use ``risen`` for differences.
"""

from __future__ import annotations

MODULUS = 2**62
MASK = MODULUS - 1  # for ``&``, which SQLite and PostgreSQL both have


# ``samples`` as they are to be read: including what ``shifts`` still has to add, in one statement, so that no reader
# sees a shift half done.
SETTLED = f"""(
    SELECT s.node_id, s.time,
        ((s.net_in_bytes & {MASK}) + coalesce(h.net_in_bytes, 0)) & {MASK} AS net_in_bytes,
        ((s.net_out_bytes & {MASK}) + coalesce(h.net_out_bytes, 0)) & {MASK} AS net_out_bytes,
        s.cpu_busy_s + coalesce(h.cpu_busy_s, 0) AS cpu_busy_s,
        s.memory_used_bytes, s.gap_s + coalesce(h.gap_s, 0) AS gap_s,
        ((s.ib_in_bytes & {MASK}) + coalesce(h.ib_in_bytes, 0)) & {MASK} AS ib_in_bytes,
        ((s.ib_out_bytes & {MASK}) + coalesce(h.ib_out_bytes, 0)) & {MASK} AS ib_out_bytes
    FROM samples s LEFT JOIN shifts h ON h.node_id = s.node_id AND h.since <= s.time AND s.time < h.until
) AS settled"""


def modulo(total: int) -> int:
    """``total`` as stored, 0 to 2**62 - 1."""
    return total % MODULUS


def risen(before: int, after: int) -> int:
    """The increase of a total from ``before`` to ``after``; negative if it fell.

    >>> risen(5, 8), risen(8, 5), risen(2**62 - 2, 3)
    (3, -3, 5)
    """
    return (after - before + MODULUS // 2) % MODULUS - MODULUS // 2
