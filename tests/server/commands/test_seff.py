"""What `jobsight seff` remarks beside its table."""

from __future__ import annotations

from msgspec.structs import replace

from jobsight_server.queries.efficiency import Efficiency
from jobsight_server.web.efficiency import remarks


def test_more_used_than_asked_for_is_never_called_as_good() -> None:
    entry = Efficiency("memory", "bytes", 100.0, 310.0, 3.1, False, False, None, None)
    assert remarks(entry) == ["it used more than it asked for; the need of similar jobs is not known yet"]
    assert remarks(replace(entry, ask_next=400.0)) == []
    assert remarks(replace(entry, used=50.0, efficiency=0.5)) == []
