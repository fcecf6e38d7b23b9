"""Writes a recorded workload as a TORQUE accounting log, repeated by other users if it is too short."""

from __future__ import annotations

import heapq
from pathlib import Path

from jobsight_scheduler.workload.swf import Trace, read_swf

START = 1_600_000_000
_DAY_S = 86_400


def write_trace_log(path: Path, trace_path: Path, count: int) -> int:
    """Write records of the first ``count`` jobs of the trace that ran, by end; return the time after the last, UTC.

    A trace with fewer is repeated after its end, with names of users and applications of their own each time.
    """
    trace = read_swf(trace_path)
    ran = [i for i in range(len(trace)) if trace["run_s"][i] >= 0 and trace["submit_s"][i] >= 0]
    ran = sorted(ran, key=lambda i: trace["submit_s"][i])
    first = trace["submit_s"][ran[0]]
    waits_and_runs = trace["submit_s"] - first + trace["wait_s"].clip(0) + trace["run_s"]
    length = int(waits_and_runs[ran].max()) // _DAY_S * _DAY_S + _DAY_S
    latest = START
    open_ends: list[tuple[int, int, str]] = []
    with path.open("w") as log:
        for number in range(count):
            times, place = divmod(number, len(ran))
            row = ran[place]
            submitted = START + times * length + int(trace["submit_s"][row] - first)
            while open_ends and open_ends[0][0] <= submitted:
                log.write(heapq.heappop(open_ends)[2])
            end, lines = _job(trace, row, number, times, submitted)
            log.write(lines[0])
            heapq.heappush(open_ends, (end, number, lines[1]))
            latest = max(latest, end)
        while open_ends:
            log.write(heapq.heappop(open_ends)[2])
    return latest + 1


def _job(trace: Trace, row: int, number: int, times: int, submitted: int) -> tuple[int, list[str]]:
    """Return the job's end, and its records of start and end."""

    def known(field: str) -> int:
        return int(trace[field][row])

    start = submitted + max(known("wait_s"), 0)
    end = start + known("run_s")
    processors = max(known("requested_processors"), known("processors"), 1)
    # A name that ends in a number would count as one of many runs.
    name = f"app{_letters(known('application'))}x{_letters(times)}" if known("application") >= 0 else "none"
    fields = [f"user=u{known('user')}-{times}", f"group=g{known('group')}", f"jobname={name}"]
    fields += [f"queue=q{known('queue')}", f"ctime={submitted}", f"qtime={submitted}", f"start={start}"]
    fields += ["owner=u@h", f"exec_host=n1/0-{processors - 1}", f"Resource_List.nodes=1:ppn={processors}"]
    if known("requested_s") > 0:
        fields.append(f"Resource_List.walltime={_clock(known('requested_s'))}")
    if known("requested_memory_kb") > 0:
        fields.append(f"Resource_List.mem={known('requested_memory_kb') * processors}kb")
    used = [f"session=1 end={end} Exit_status=0 resources_used.walltime={_clock(known('run_s'))}"]
    if known("cpu_s") >= 0:
        used.append(f"resources_used.cput={_clock(known('cpu_s') * processors)}")
    if known("memory_kb") > 0:
        used.append(f"resources_used.mem={known('memory_kb') * processors}kb")
    body = " ".join(fields)
    return end, [
        f"06/01/2026 00:00:01;S;{number}.trace;{body}\n",
        f"06/01/2026 00:00:01;E;{number}.trace;{body} {' '.join(used)}\n",
    ]


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _letters(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))
