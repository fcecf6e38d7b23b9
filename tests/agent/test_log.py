"""The agent's log says lasting trouble once a minute."""

from __future__ import annotations

import pytest

from jobsight_agent.log import Log


def test_one_line_a_minute_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    now = [1000.0]
    log = Log(lambda: now[0])
    said = []
    for second in range(150):
        now[0] = 1000.0 + second
        if log.once_a_minute("spool", f"cannot write at {second}"):
            said.append(second)
        log.once_a_minute("refused", "a batch")
    assert said == [0, 60, 120]
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("jobsight-agent: a batch") == 3
    assert "jobsight-agent: cannot write at 60" in lines
    assert len(lines) == 6
