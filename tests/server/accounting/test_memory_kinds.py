"""Resident memory and address space are separate: advice has the kind and the option of the last request."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests.make import not_none

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.advice.recommendation import asked_as, recommend
from jobsight_server.advice.words import lines_to_ask, sentence
from jobsight_server.forecasts.last_runs import last_runs
from jobsight_server.forecasts.prediction import AnswerReader
from jobsight_server.forecasts.request import ForecastConfig, job_question
from jobsight_server.learning.finished import profile_finished
from jobsight_server.queries.users import next_job
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
def test_advice_is_in_the_word_of_the_last_request(
    sqlite_engine: Engine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    log = tmp_path / "20260921"
    log.write_text("".join(record(number, words[number % len(words)]) for number in range(12)))
    import_files(sqlite_engine, [log], "c", lambda: 1.8e9, "torque")
    profile_finished(sqlite_engine, 0.0, lambda: 1.8e9)
    reader = AnswerReader(ForecastConfig())
    with sqlite_engine.connect() as connection:
        runs = last_runs(connection, "c", "ann")
        found = recommend(connection, reader, "c", *asked_as(connection, "ann", runs[0]))
        values = set(connection.scalars(select(profiles.c.value).where(profiles.c.metric == "memory")))
        described = next_job(connection, reader, "c", "ann", job_question("ann", "app", "q", 1, 4 * 2**30, None), "pbs")
    assert values == {VIRTUAL if "vmem" in word else RESIDENT for word in words}
    last = words[11 % len(words)]
    least = VIRTUAL if "vmem" in last else RESIDENT
    decided = found.decisions["memory"]
    assert decided.similar.runs == 12 / len(words), "only those of the kind of the last one"
    assert least <= not_none(decided.amount) <= max(1.2 * least, 100 * 2**20)
    assert ("of virtual memory" in sentence(found)) == ("vmem" in last)
    (script,) = lines_to_ask(found, "pbs", runs[0])
    assert script.text.startswith(f"#PBS -l {last}=")
    assert [line.text for line in not_none(described).ask_lines] == [script.text]
