"""Records as PBS Pro and OpenPBS write them."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine
from tests.server.accounting.conftest import rows
from tests.traces import trace

from jobsight_server.accounting.read_logs import import_files


@pytest.mark.storage
def test_what_a_real_server_wrote(engine: Engine) -> None:
    report = import_files(engine, [trace("../accounting/openpbs/20261120")], "alpha", lambda: 1.8e9, "pbspro")
    assert report.figures.rejected == {}
    assert dict(report.figures.records) == {"D": 1, "E": 14, "Q": 13, "R": 1, "S": 15}
    states = [state for (state,) in rows(engine, "state")]
    assert states.count("ended") == 13  # the E record of an array's parent is no run
    assert states.count("requeued") == 1
