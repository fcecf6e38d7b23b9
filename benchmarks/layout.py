"""How samples could lie in SQLite: a wide row per reading, or compressed columns per node and batch.

    python benchmarks/layout.py [--nodes 64] [--hours 24]

Both hold the same cumulative values of readings 10 s apart, in batches of 60. Asked is what a profile needs: 8 nodes
over one hour, every reading. Prints CPU per reading stored, bytes per reading on disk, and time per job asked.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

Row = tuple[int, float, int, int, float, int, float]
BATCH, INTERVAL_S, COLUMNS = 60, 10.0, "dqqdqd"

WIDE = (
    "CREATE TABLE samples (node_id INTEGER, time DOUBLE, net_in BIGINT, net_out BIGINT, cpu DOUBLE, memory BIGINT, "
    "gap DOUBLE NOT NULL, PRIMARY KEY (node_id, time)) WITHOUT ROWID"
)
PACKED = (
    "CREATE TABLE samples (node_id INTEGER, first_time DOUBLE, last_time DOUBLE, columns BLOB, "
    "UNIQUE (node_id, first_time))"  # with rowid: without it, blobs of this size waste half of each page
)


def batches(nodes: int, hours: float) -> Iterator[list[Row]]:
    """The batches of all nodes, in the order in which they would arrive."""
    rng = random.Random(1)
    totals = [[rng.randrange(10**12), rng.randrange(10**12), 0.0] for _ in range(nodes)]
    for number in range(int(hours * 3600 / INTERVAL_S / BATCH)):
        for node, total in enumerate(totals):
            rows = []
            for i in range(BATCH):
                total[0] += rng.randrange(10**8)
                total[1] += rng.randrange(10**8)
                total[2] = round(total[2] + rng.random() * 160, 2)
                when = 1.7e9 + node * 0.37 + (number * BATCH + i) * INTERVAL_S
                memory = rng.randrange(2**34) // 4096 * 4096
                rows.append((node, when, int(total[0]), int(total[1]), total[2], memory, 0.0))
            yield rows


def store_wide(connection: sqlite3.Connection, rows: list[Row]) -> None:
    connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def store_packed(connection: sqlite3.Connection, rows: list[Row]) -> None:
    columns = list(zip(*rows, strict=True))[1:]
    packed = b"".join(struct.pack(f"<{len(rows)}{kind}", *c) for kind, c in zip(COLUMNS, columns, strict=True))
    values = (rows[0][0], rows[0][1], rows[-1][1], zlib.compress(packed, 1))
    connection.execute("INSERT INTO samples VALUES (?, ?, ?, ?)", values)


def ask_wide(connection: sqlite3.Connection, node: int, start: float, end: float) -> list[tuple[float, ...]]:
    query = "SELECT time, net_in, net_out, cpu, memory, gap FROM samples WHERE node_id = ? AND time BETWEEN ? AND ?"
    return connection.execute(query, (node, start, end)).fetchall()


def ask_packed(connection: sqlite3.Connection, node: int, start: float, end: float) -> list[tuple[float, ...]]:
    query = "SELECT columns FROM samples WHERE node_id = ? AND first_time <= ? AND last_time >= ? ORDER BY first_time"
    found: list[tuple[float, ...]] = []
    for (blob,) in connection.execute(query, (node, end, start)):
        packed = zlib.decompress(blob)
        n = len(packed) // (8 * len(COLUMNS))
        columns = [struct.unpack_from(f"<{n}{kind}", packed, 8 * n * i) for i, kind in enumerate(COLUMNS)]
        found += [row for row in zip(*columns, strict=True) if start <= row[0] <= end]
    return found


def measure(
    schema: str, store: Callable[..., None], ask: Callable[..., list[tuple[float, ...]]], args: argparse.Namespace
) -> tuple[float, float, float, int]:
    """CPU microseconds per reading, bytes per reading, milliseconds per job, readings that the jobs had."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "layout.db"
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(schema)
        spent, readings = 0.0, 0
        group: list[list[Row]] = []
        for rows in batches(args.nodes, args.hours):
            group.append(rows)
            if len(group) == 32:  # as group commit would
                began = time.process_time()
                connection.execute("BEGIN IMMEDIATE")
                for batch in group:
                    store(connection, batch)
                connection.execute("COMMIT")
                spent += time.process_time() - began
                readings += sum(map(len, group))
                group = []
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        rng, times, found = random.Random(2), [], 0
        for _ in range(200):
            start = 1.7e9 + rng.uniform(0, max(1.0, args.hours - 1.5)) * 3600
            nodes = rng.sample(range(args.nodes), 8)
            began = time.perf_counter()
            found += sum(len(ask(connection, node, start, start + 3600)) for node in nodes)
            times.append(time.perf_counter() - began)
        connection.close()
        return spent / readings * 1e6, file.stat().st_size / readings, statistics.median(times) * 1e3, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--hours", type=float, default=24)
    args = parser.parse_args()
    layouts = {"wide rows": (WIDE, store_wide, ask_wide), "packed batches": (PACKED, store_packed, ask_packed)}
    results = {name: measure(*layout, args) for name, layout in layouts.items()}
    if len({result[3] for result in results.values()}) != 1:
        raise SystemExit(f"the layouts do not answer alike: {results}")
    print(f"{'':<16}{'store us/reading':>18}{'bytes/reading':>15}{'ask ms/job':>12}")
    for name, (store_us, size, ask_ms, _) in results.items():
        print(f"{name:<16}{store_us:>18.2f}{size:>15.1f}{ask_ms:>12.2f}")


if __name__ == "__main__":
    main()
