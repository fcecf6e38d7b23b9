"""LSF's accounting as a table: bacct -l -UF -u all | python lsf_to_table.py 2026 > jobs; jobsight import table jobs"""

import json
import re
import sys
import time

LINE = r"^\w{3} (\w{3} +\d+ [\d:]{8})( \d{4})?: (?:\[\d+\] )?(Submitted|[Dd]ispatched|Completed)(.*)"
USED = r"HOG_FACTOR.*\n\s*([\d.]+)(?:\s+\S+){4}\s+(?:([\d.]+)([KMGT])|-)"
BYTES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

for job in re.split(r"^-{20,}$", sys.stdin.read(), flags=re.MULTILINE):
    if head := re.search(r"^Job <(.+?)>.*", job, re.MULTILINE):
        known = dict(re.findall(r"(Job Name|User|Project|Queue) <(.*?)>", head[0]))
        row = {"job_id": head[1], "user": known["User"], "account": known.get("Project"), "queue": known.get("Queue")}
        row |= {"name": known.get("Job Name"), "start_epoch_s": None}  # a job without a start did not run
        for stamp, year, what, rest in re.findall(LINE, job, re.MULTILINE):
            moment = time.mktime(time.strptime(stamp + (year or f" {sys.argv[1]}"), "%b %d %H:%M:%S %Y"))
            row[{"S": "submitted_epoch_s", "C": "end_epoch_s"}.get(what[0], "start_epoch_s")] = moment
            if what.endswith("ispatched"):
                hosts = re.findall(r"<(?:(\d+)\*)?([^>]+)>", re.split("[,;]", rest)[0])
                row["nodes"] = " ".join(f"{host}:{count or 1}" for count, host in hosts)
        if used := re.search(USED, job):
            row |= {"used_cpu_s": used[1], "used_memory_bytes": float(used[2] or 0) * BYTES[used[3] or "K"] or None}
        row["failure"] = "memory" if "TERM_MEMLIMIT" in job else "time" if "TERM_RUNLIMIT" in job else None
        print(json.dumps(row))
