"""Jobsight beside the published rules for sizing jobs, in one run.

    python benchmarks/peers.py --protocol A|B|site [--coverage .95] FILE...

A and B take tables of workflow tasks, site takes traces in the Standard Workload Format. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sizing.sites import Beside, compare_site, site_table
from sizing.table import Row, comparison
from sizing.tasks import read_tasks
from sizing.workflows import compare


def share(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise ValueError
    return value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", choices=("A", "B", "site"), required=True)
    parser.add_argument("--coverage", type=share, default=0.95, help="share of jobs that should fit, 0 to 1 (.95)")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    args = parser.parse_args()
    rows: list[Row] = []
    compared: list[Beside] = []
    try:
        for file in args.files:
            if args.protocol == "site":
                compared += compare_site(file, args.coverage)
                continue
            workflow = read_tasks(file)
            for reason, count in workflow.skipped.items():
                print(f"{file}: {count} tasks skipped: {reason}", file=sys.stderr)
            rows += compare(workflow, args.protocol, args.coverage)
    except (OSError, EOFError, ValueError) as error:
        print(error if str(file) in str(error) else f"{file}: {error}", file=sys.stderr)
        return 1
    print(site_table(compared) if compared else comparison(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
