"""A backlog of short jobs: jobs per CPU second read from the accounting log, profiled and learned.

    python benchmarks/backlog.py [TRACE.swf.gz] [--jobs N] [--limit N] [--nodes N] [--directory DIR]

Jobs of a minute, one submitted a second, of five users; on half of the nodes a reading a second, on the others none.
Of every second job the log gives memory and CPU time. With a trace, its first jobs instead, repeated later by other
users if it has fewer, and no readings. The log is read with the code of `jobsight import`, the backlog profiled with
that of the background worker, or, with a trace, of the import.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, insert, select
from trace_log import write_trace_log

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.readings.sent import pack
from jobsight_server.storage.schema import boots, model_state, nodes, readings
from jobsight_server.upgrade.migrate import upgrade

CLUSTER = "alpha"
START = 1_790_000_000
LIFE_S = 60
READINGS_PER_BATCH = 20
NOW = START + 10.0**9
IMPORTED_AT_ONCE = 1000  # runs; as `jobsight import` commits them together


def write_log(path: Path, count: int, node_count: int) -> None:
    """Write S and E records of ``count`` jobs, each on one node, in a scheduler's order."""
    lines = []
    for number in range(count):
        start = START + number
        body = f"user=u{number % 5} group=g jobname=run_{number} queue=q ctime={start} qtime={start} etime={start} "
        body += f"start={start} owner=u@h exec_host=n{number % node_count:03}/0 Resource_List.walltime=01:00:00"
        used = "resources_used.cput=00:00:50 resources_used.mem=1024kb " if number // node_count % 2 else ""
        ended = f"{body} session=1 end={start + LIFE_S} Exit_status=0 {used}resources_used.walltime=00:01:00"
        lines.append((start, f"11/19/2026 00:00:01;S;{number}.server;{body}\n"))
        lines.append((start + LIFE_S, f"11/19/2026 00:00:01;E;{number}.server;{ended}\n"))
    lines.sort(key=lambda line: line[0])
    path.write_text("".join(line for _, line in lines))


def write_samples(engine: Engine, seconds: int, node_count: int) -> None:
    """Write a reading a second of every second node, with their batches."""
    for number in range(0, node_count, 2):
        first, last = float(START - 30), float(START + seconds + 30)
        count = int(last - first) + 1
        node: dict[str, Any] = {"cluster": CLUSTER, "name": f"n{number:03}", "boot_id": "b", "cpus": 16}
        node |= {"interfaces": "[]", "agent": "{}", "first_time": first, "last_time": last}
        node |= {"received_at": last, **dict.fromkeys(("wraps", "resets", "boots", "missing"), 0), "samples": count}
        with engine.begin() as connection:
            node_id = connection.execute(insert(nodes).values(node).returning(nodes.c.id)).scalar_one()
            interfaces = b'[{"name":"eth0","kind":"ethernet","width_bits":64}]'
            boot = {"node_id": node_id, "boot_id": "b", "interfaces": interfaces}
            boot_id = connection.execute(insert(boots).values(boot).returning(boots.c.id)).scalar_one()
            connection.execute(insert(readings), list(_batches(node_id, boot_id, first, last, count)))


def _batches(node_id: int, boot: int, first: float, last: float, count: int) -> Iterator[dict[str, Any]]:
    for begin in range(0, count, READINGS_PER_BATCH):
        some = range(begin, min(begin + READINGS_PER_BATCH, count))
        seconds = ([first + i for i in some], [0.5 * i for i in some], None, None)
        whole = [[2**30 + (i * 37 % 1000) * 2**20 for i in some], [1000 * i for i in some], [900 * i for i in some]]
        row = {"node_id": node_id, "boot": boot, "sequence": begin // READINGS_PER_BATCH, "checksum": 0}
        row |= {"first_time": first + begin, "last_time": first + some[-1], "samples": len(some), "received_at": last}
        yield row | {"packed": pack(seconds, whole), "last_sequence": row["sequence"]}


def written_bytes() -> int:
    """Return the bytes that this process has written to disk; 0 on a file system in memory."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def timed(work: Callable[[], Any]) -> dict[str, float]:
    """Return CPU and wall seconds of ``work``, the bytes written, and the largest memory of the process so far."""
    wall, cpu, written = time.perf_counter(), time.process_time(), written_bytes()
    work()
    return {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "written_bytes": written_bytes() - written,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure(directory: Path, trace: Path | None, count: int, node_count: int, limit: int | None) -> dict[str, Any]:
    """Measure both parts, in jobs per CPU second, and the size of the model."""
    engine = open_engine(f"sqlite:///{directory / 'backlog.db'}")
    upgrade(engine)
    log = directory / "20261119"
    if trace is None:
        write_samples(engine, count + LIFE_S, node_count)
        write_log(log, count, node_count)
    else:
        write_trace_log(log, trace, count)
        limit = limit or IMPORTED_AT_ONCE
    taken_in = timed(lambda: import_files(engine, [log], CLUSTER, lambda: NOW))
    options = {} if limit is None else {"limit": limit}
    profiled = timed(lambda: profile_finished(engine, 0.0, lambda: NOW, LearningOptions(**options)))
    both = {"taken in": taken_in, "profiled and learned": profiled}
    found: dict[str, Any] = {name: {**times, "jobs_per_cpu_s": count / times["cpu_s"]} for name, times in both.items()}
    with engine.connect() as connection:
        rows, size = connection.execute(select(func.count(), func.sum(func.length(model_state.c.state)))).one()
    engine.dispose()
    return found | {"model": {"rows": rows, "bytes": size}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", type=Path, help="its first jobs, in place of short ones of five users")
    parser.add_argument("--jobs", type=int, default=30_000, help="default %(default)s")
    parser.add_argument("--nodes", type=int, default=8, help="half of them send samples (default %(default)s)")
    parser.add_argument("--limit", type=int, help="jobs committed together (default: the background worker's)")
    parser.add_argument("--directory", help="where the database is; on a disk, for bytes written (default: temporary)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        found = measure(Path(directory), args.trace, args.jobs, args.nodes, args.limit)
    model = found.pop("model")
    for name, figures in found.items():
        print(
            f"{name}: {figures['jobs_per_cpu_s']:,.0f} jobs a CPU second ({figures['cpu_s']:.1f} s of CPU), "
            f"{figures['written_bytes'] / args.jobs / 1e3:.1f} kB written a job, "
            f"{figures['peak_rss_bytes'] / 2**20:.0f} MiB at the peak"
        )
    print(f"model: {model['rows']:,} rows, {model['bytes'] / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
