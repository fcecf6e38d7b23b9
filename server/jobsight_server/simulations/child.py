"""``jobsight simulate`` as a child of the background role, with which it ends; gives way to whatever answers.

    python -m jobsight_server.simulations.child MEMORY_BYTES SECONDS ARGUMENT...

It takes no more address space than that, and no more CPU seconds. What it prints has no figures by user: of a trace
with as many users as jobs they would be more than the one who reads them should hold.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from contextlib import redirect_stdout
from io import StringIO

MEMORY_USED_UP = 75
"""Exit status."""


def main() -> int:
    """Exit status of the command, or ``MEMORY_USED_UP``."""
    memory_bytes, seconds, *arguments = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each thread of a large machine would take its part of the memory
    try:
        from jobsight_server.cli import main as jobsight
        from jobsight_server.serve.lifeline import end_with_parent

        end_with_parent()
        os.nice(10)
        with redirect_stdout(StringIO()) as printed:
            status = jobsight(["simulate", *arguments])
        if status == 0:
            figures = json.loads(printed.getvalue())
            del figures["by_user"]
            print(json.dumps(figures))
    except MemoryError:
        return MEMORY_USED_UP
    return status


if __name__ == "__main__":
    sys.exit(main())
