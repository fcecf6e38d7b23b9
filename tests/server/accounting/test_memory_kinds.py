"""Resident memory and address space are separate: advice has the kind and the option of the request."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests.make import not_none

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.advice.recommendation import recommend_as_last
from jobsight_server.advice.words import lines_to_ask, sentence
from jobsight_server.forecasts.reader import AnswerReader
from jobsight_server.forecasts.request import ForecastConfig
from jobsight_server.forecasts.such_jobs import last_runs
from jobsight_server.profiler.run import profile_finished
from jobsight_server.storage.schema import profiles

RESIDENT, VIRTUAL = 20 * 2**20, 1090 * 2**20


def record(number: int, word: str) -> str:
    """The end of a job that maps much more than it holds, and requested 4 GiB by this option."""
    start = 1_790_000_000 + 9000 * number
    return (
        f"09/21/2026 14:13:20;E;{number}.srv;user=ann group=g jobname=app queue=q ctime={start} qtime={start} "
        f"etime={start} start={start} owner=ann@srv exec_host=n1/0 Resource_List.{word}=4gb session=5 "
        f"end={start + 3600} Exit_status=0 resources_used.cput=00:30:00 resources_used.mem={RESIDENT}b "
        f"resources_used.vmem={VIRTUAL}b resources_used.walltime=01:00:00\n"
    )


@pytest.mark.parametrize("words", [("pvmem",), ("vmem",), ("pmem",), ("mem",), ("pvmem", "mem")])
def test_advice_is_in_the_word_of_the_request_or_there_is_none(
    sqlite_engine: Engine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    log = tmp_path / "20260921"
    log.write_text("".join(record(number, words[number % len(words)]) for number in range(12)))
    import_files(sqlite_engine, [log], "c", lambda: 1.8e9, "torque")
    profile_finished(sqlite_engine, 0.0, lambda: 1.8e9)
    with sqlite_engine.connect() as connection:
        runs = last_runs(connection, "c", "ann")
        found = recommend_as_last(connection, AnswerReader(sqlite_engine, ForecastConfig()), "c", "ann", runs[0])
        values = set(connection.scalars(select(profiles.c.value).where(profiles.c.metric == "memory")))
    if len(words) > 1:
        assert (values, found.decisions["memory"].amount) == ({VIRTUAL, RESIDENT}, None)
        return
    is_virtual = "vmem" in words[0]
    assert values == {VIRTUAL if is_virtual else RESIDENT}
    assert (VIRTUAL if is_virtual else RESIDENT) <= not_none(found.decisions["memory"].amount) < 2**31
    assert ("of virtual memory" in sentence(found)) == is_virtual
    (script,) = lines_to_ask(found, "pbs")
    assert script.text.startswith(f"#PBS -l {words[0]}=")
