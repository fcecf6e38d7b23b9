"""Tables of runs, as a site's converter writes them."""

from __future__ import annotations

from pathlib import Path

from jobsight_server.accounting.parsers.table_columns import COLUMNS

ROOT = Path(__file__).parents[3]


def test_the_documents_name_every_column() -> None:
    text = (ROOT / "docs" / "operate" / "sources.md").read_text()
    assert {name for name in COLUMNS if f"`{name}`" not in text} == set()
