"""What a call of the job hook costs a job, with a running agent, on an idle and on a busy node.

    python benchmarks/hook.py [--calls 50] [--busy 0] [--hook deploy/hooks/mark-job]

Wall time as the job waits, CPU time of all that the call starts, and how many calls left no mark. ``--busy`` starts so
many endless loops beside it. ``--hook`` takes one of another version, set up by its own names at its top.
"""

from __future__ import annotations

import argparse
import grp
import json
import os
import pwd
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOOK = Path(__file__).parents[1] / "deploy" / "hooks" / "mark-job"


def install(hook: Path, folder: Path) -> Path:
    """The hook as a prologue, set up for an agent of the user that runs this."""
    user = pwd.getpwuid(os.geteuid())
    (folder / "agent.toml").write_text(f'spool = "{folder}/spool"\n')
    settings = {
        "PYTHON": sys.executable,
        "AGENT": str(Path(sys.executable).with_name("jobsight-agent")),  # until 0.1
        "CONFIG": f"{folder}/agent.toml",
        "SPOOL": f"{folder}/spool",
        "AGENT_USER": user.pw_name,
        "AGENT_GROUP": grp.getgrgid(user.pw_gid).gr_name,
    }
    lines = [
        f"{name}={settings[name]}" if "=" in line and name in settings else line
        for line in hook.read_text().splitlines()
        for name in [line.partition("=")[0]]
    ]
    prologue = folder / "prologue"
    prologue.write_text("\n".join(lines) + "\n")
    prologue.chmod(0o700)
    return prologue


def marks(spool: Path) -> int:
    """Readings with a mark in the agent's journal, and those that the hook left as files."""
    journal = [json.loads(line) for file in spool.glob("open-*.jsonl") for line in file.read_text().split("\n") if line]
    return sum(record[9] is not None for record in journal) + len(list((spool / "marks").glob("*.json")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--hook", type=Path, default=HOOK)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prologue = install(args.hook, folder)
        (folder / "token").write_text("bench")
        command = [
            sys.executable, "-m", "jobsight_agent.cli", "run", "--server", "http://127.0.0.1:9", "--token-file",
            str(folder / "token"), "--spool", str(folder / "spool"), "--interval", "3600", "--batch-age-s", "3600",
        ]  # fmt: skip
        agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.busy)]
        walls = []
        try:
            time.sleep(3)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            for number in range(args.calls):
                begin = time.perf_counter()
                subprocess.run([prologue, f"{number}.head"], check=True)
                walls.append((time.perf_counter() - begin) * 1000)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            time.sleep(3)
            found = marks(folder / "spool")
        finally:
            for process in (agent, *busy):
                process.kill()
                process.wait()
    walls.sort()
    cpu_ms = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / args.calls * 1000
    print(
        f"{args.calls} calls beside {args.busy} busy loops: wall {walls[len(walls) // 2]:.0f} ms at the median, "
        f"{walls[-1]:.0f} at most; CPU {cpu_ms:.0f} ms; {args.calls - found} left no mark"
    )


if __name__ == "__main__":
    main()
