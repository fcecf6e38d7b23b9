"""Tables of runs, as a site's converter writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jobsight_server.accounting.parsers.table_columns import COLUMNS

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"


def test_the_converter_of_bacct_makes_a_table() -> None:
    """That of a golden log, whose runs are known."""
    command = [sys.executable, str(ROOT / "examples" / "lsf_to_table.py"), "2026"]
    with (GOLDEN / "bacct.txt").open() as text:
        made = subprocess.run(command, stdin=text, capture_output=True, check=True, env={**os.environ, "TZ": "UTC"})
    assert made.stdout == (GOLDEN / "logs" / "table-lsf.log").read_bytes()


def test_the_documents_name_every_column() -> None:
    text = (ROOT / "docs" / "operate" / "sources.md").read_text()
    assert {name for name in COLUMNS if f"`{name}`" not in text} == set()
