"""A year of a large site: records of `sacct` generated, and imported in one pass.

    python benchmarks/import_slurm.py [--jobs N] [--form text|json] [--file FILE]

Jobs of a thousand users, with one to three steps each, every twentieth an array, failed, requeued or out of memory. The
file is read with the code of `jobsight import slurm` in its own process: records per second, the largest memory of the
process, and the changes by a second import of the same file. `--file` keeps the file, and uses it if it exists.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

START = 1_760_000_000
COLUMNS = ["JobIDRaw", "JobName", "User", "Group", "Account", "Partition", "State", "ExitCode", "DerivedExitCode"]
COLUMNS += ["Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "ReqMem", "ReqTRES"]
COLUMNS += ["AllocTRES", "AllocCPUS", "NNodes", "NodeList", "TotalCPU", "NTasks", "TRESUsageInMin", "TRESUsageInTot"]
_CHILD = """
import json, resource, sys, time
from pathlib import Path
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade

engine = open_engine(sys.argv[1])
upgrade(engine)
began, cpu = time.monotonic(), time.process_time()
report = import_files(engine, [Path(sys.argv[2])], "lab", lambda: 2e9, "slurm")
figures = report.figures
print(json.dumps({
    "records": figures.lines, "rejected": figures.rejected.total(), "lost": figures.lost_without_reason,
    "new_runs": report.new_runs, "taken_in": report.taken_in.lines, "seconds": time.monotonic() - began,
    "cpu_s": time.process_time() - cpu, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""


def jobs(count: int) -> Iterator[dict[str, Any]]:
    """Generate jobs in order of submission, as fields of their records."""
    for number in range(count):
        submitted = START + number * 15
        start = submitted + number * 7 % 3600
        length = 60 + number * 37 % 36_000
        odd = number % 20
        state = {3: "FAILED", 7: "TIMEOUT", 11: "OUT_OF_MEMORY", 13: "REQUEUED"}.get(odd, "COMPLETED")
        yield {
            "id": number + 1,
            "user": f"user{number * 31 % 1000}",
            "name": f'run_{number % 50} | "{number % 7}"',
            "state": state,
            "submitted": submitted,
            "start": start,
            "end": start + length,
            "processors": 1 << number % 6,
            "nodes": 1 + number % 3,
            "requested_mib": 1000 * (1 + number % 8),
            "used": (100 + number * 13 % 900) * 2**20,
            "steps": ["batch", *(str(step) for step in range(number % 3))],
        }


def text_of(job: dict[str, Any]) -> str:
    """Write the rows of a job."""
    tres = f"cpu={job['processors']},mem={job['requested_mib']}M,node={job['nodes']}"
    times = [str(job[name]) for name in ("submitted", "submitted", "start", "end")]
    length = str(job["end"] - job["start"])
    nodes = "n001" if job["nodes"] == 1 else f"n[001-{job['nodes']:03}]"
    size = [str(job["processors"]), str(job["nodes"]), nodes]
    head = [str(job["id"]), job["name"], job["user"], "hpc", "physics", "batch", job["state"], "0:0", "0:0", *times]
    head += [length, "00:00:00", "720", f"{job['requested_mib']}M", tres, tres, *size, "00:50.123", "", "", ""]
    rows = [head]
    for step in job["steps"]:
        used = f"cpu=00:00:20,energy=0,fs/disk=293029,mem={job['used'] // 1024}K,pages=1,vmem=166400K"
        row = [f"{job['id']}.{step}", step, "", "", "physics", "", "COMPLETED", "0:0", "", *times]
        rows.append([*row, length, "00:00:00", "", "", "", tres, *size, "00:20.123", "1", used, used])
    return "".join("\x1f".join(row) + "\n" for row in rows)


def json_of(job: dict[str, Any]) -> str:
    """Write a record as Slurm 23.11 does."""

    def number(value: int) -> dict[str, Any]:
        return {"set": True, "infinite": False, "number": value}

    code = {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(0) | {"set": False}, "name": ""}}
    tres = [{"type": "cpu", "count": job["processors"]}, {"type": "mem", "count": job["requested_mib"]}]
    tres.append({"type": "node", "count": job["nodes"]})
    moments = {"elapsed": job["end"] - job["start"], "suspended": 0, "total": {"seconds": 20, "microseconds": 123456}}
    steps = []
    for step in job["steps"]:
        used = [
            {"type": name, "name": "", "id": 2, "count": job["used"], "task": 0} for name in ("mem", "vmem", "pages")
        ]
        steps.append(
            {
                "time": {**moments, "start": number(job["start"]), "end": number(job["end"])},
                "exit_code": code,
                "nodes": {"count": 1, "range": "n001", "list": ["n001"]},
                "tasks": {"count": 1},
                "state": ["COMPLETED"],
                "step": {"id": f"{job['id']}.{step}", "name": step},
                "tres": {"requested": dict.fromkeys(("max", "min", "average", "total"), used), "allocated": tres},
            }
        )
    times = {"submission": job["submitted"], "eligible": job["submitted"], "start": job["start"], "end": job["end"]}
    return json.dumps(
        {
            "account": "physics",
            "association": {"account": "physics", "cluster": "lab", "user": job["user"], "id": 16},
            "derived_exit_code": code,
            "time": {**moments, **times, "limit": number(720)},
            "exit_code": code,
            "group": "hpc",
            "job_id": job["id"],
            "name": job["name"],
            "nodes": "n001" if job["nodes"] == 1 else f"n[001-{job['nodes']:03}]",
            "partition": "batch",
            "required": {"CPUs": job["processors"]},
            "state": {"current": [job["state"]], "reason": "None"},
            "steps": steps,
            "tres": {"allocated": tres, "requested": tres},
            "user": job["user"],
        }
    )


def write(path: Path, form: str, count: int) -> None:
    """Write a file of ``count`` jobs."""
    with path.open("w", encoding="utf-8") as file:
        if form == "text":
            file.write("\x1f".join(COLUMNS) + "\n")
            file.writelines(map(text_of, jobs(count)))
            return
        file.write('{"jobs": [\n')
        for number, job in enumerate(jobs(count)):
            file.write((",\n" if number else "") + json_of(job))
        file.write('\n], "meta": {"slurm": {"release": "23.11.10"}}, "errors": [], "warnings": []}\n')


def imported(database: str, path: Path) -> dict[str, Any]:
    """Import in a separate process; return its report and cost."""
    command = [sys.executable, "-c", _CHILD, database, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2_000_000, help="records to generate (default: 2000000)")
    parser.add_argument("--form", choices=("text", "json"), default="text", help="text or JSON (default: text)")
    parser.add_argument("--file", type=Path, help="file to generate, or to use if it exists (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = args.file or Path(directory) / f"sacct.{args.form}"
        if not path.exists():
            write(path, args.form, args.jobs)
        database = f"sqlite:///{directory}/jobsight.db"
        first, second = imported(database, path), imported(database, path)
        size = path.stat().st_size
    print(f"{first['records']:,} records, {size / 1e9:.2f} GB")
    for name, one in (("first", first), ("second", second)):
        count, cpu_us = one["records"], one["cpu_s"] / one["records"] * 1e6
        print(f"{name}: {one['seconds']:,.0f} s, {count / one['seconds']:,.0f} records/s, {cpu_us:.0f} µs of CPU each")
        print(f"    at most {one['peak_mb']:.0f} MB; {size / one['seconds'] / 1e6:.1f} MB/s")
        print(f"    new runs {one['new_runs']:,}, rejected {one['rejected']:,}, lost {one['lost']:,}")


if __name__ == "__main__":
    main()
