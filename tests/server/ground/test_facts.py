"""Facts of jobs: from comments and columns to the job and its question, which is grouped as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.make import not_none

from jobsight_server.accounting.parsers.pbspro import parse_line as parse_pbspro
from jobsight_server.accounting.parsers.table import parser_of
from jobsight_server.accounting.parsers.torque import parse_line as parse_torque
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.forecasts.request import read_jobs
from jobsight_server.forecasts.workload import jobs_of_database
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.ground.facts import FACTS_AT_MOST, facts_in, facts_of, found_facts
from jobsight_server.learning.finished import profile_finished
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import jobs

BYTES = (("input_bytes", 3.1e9),)
TABLE = b"job_id,user,start_epoch_s,end_epoch_s,fact_input_bytes,fact_samples\n"


@pytest.mark.parametrize("bad", ["nan", "inf", "-Infinity", "", "much", "1e999", "0x10", "1 2"])
def test_what_is_no_finite_number_is_dropped_and_the_rest_kept(bad: str) -> None:
    found = found_facts([("reads", bad), ("input_bytes", "3.1e9")])
    assert (facts_of(found.text), found.dropped) == (BYTES, 1)


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 65, "a/b", "a\n"])
def test_what_is_no_name_is_dropped(name: str) -> None:
    assert found_facts([(name, "1")]) == (None, 1)
    assert facts_of(found_facts([("x" * 64, "1"), ("A-z_0.9", "-2")]).text) == (("A-z_0.9", -2.0), ("x" * 64, 1.0))


def test_only_so_many_are_kept() -> None:
    found = found_facts([(f"f{i}", str(i)) for i in range(FACTS_AT_MOST + 3)] + [("f0", "7")])
    facts = dict(facts_of(found.text))
    assert (len(facts), found.dropped, facts["f0"]) == (FACTS_AT_MOST, 3, 7.0)


@pytest.mark.parametrize(
    ("comment", "facts", "dropped"),
    [
        ("jobsight:input_bytes=3.1e9", BYTES, 0), ("for ann; jobsight:input_bytes=3.1e9; urgent", BYTES, 0),
        ("jobsight:input_bytes=1 jobsight:input_bytes=3.1e9", BYTES, 0), ("notjobsight:input_bytes=1", (), 0),
        ("jobsight: 2G will do; jobsight_asked=time:1", (), 0), ("see jobsight:manual", (), 1), ("", (), 0),
        ("jobsight:a=1,b=,=2,input_bytes=3.1e9", (("a", 1.0), *BYTES), 2),
    ],
)  # fmt: skip
def test_facts_in_a_comment(comment: str, facts: Any, dropped: int) -> None:
    found = facts_in(comment, None)
    assert (facts_of(found.text), found.dropped) == (facts, dropped)


def test_pbs_and_torque_where_their_logs_have_them() -> None:
    times = "ctime=1315413989 qtime=1315413990 etime=0 start=1315415070 end=1315458141 Exit_status=0"
    line = "09/08/2011 00:02:21;E;7.s;user=ann group=g "
    for parse, said in (
        (parse_torque, "x=jobsight:input_bytes=3.1e9"),
        (parse_pbspro, 'comment="large: jobsight:input_bytes=3.1e9"'),
        (parse_pbspro, "Variable_List=PBS_O_HOME=/home,FACTS=jobsight:input_bytes=3.1e9,X=1"),
    ):
        run = not_none(parse(f"{line}{times} {said}").run)
        assert (facts_of(run.facts), run.dropped_facts) == (BYTES, 0)


def test_columns_of_a_table_and_objects_of_its_json() -> None:
    run = not_none(parser_of(TABLE)("7,ann,100,200,3.1e9,").run)
    of_json = parser_of(b"{")('{"job_id": "7", "user": "ann", "start_epoch_s": 1, "fact_input_bytes": 3.1e9}').run
    assert facts_of(run.facts) == facts_of(not_none(of_json).facts) == BYTES
    with pytest.raises(AccountingError, match="two columns"):
        parser_of(b"job_id,user,start_epoch_s,fact_a,fact_a\n")


def imported(engine: Engine, folder: Path, *rows: str) -> None:
    file = folder / f"{len(list(folder.iterdir()))}.csv"
    file.write_bytes(TABLE + "\n".join([*rows, ""]).encode())
    report = import_files(engine, [file], "alpha", lambda: 2e9)
    assert not report.taken_in.rejected


@pytest.mark.storage
def test_a_jobs_facts_are_stored_counted_and_part_of_its_question(engine: Engine, tmp_path: Path) -> None:
    imported(engine, tmp_path, "1,ann,100,200,3.1e9,12", "2,ann,100,,3.1e9,", "3,ann,100,200,nan,x", "4,ann,100,200,,")
    imported(engine, tmp_path, "2,ann,100,200,,")
    both = (*BYTES, ("samples", 12.0))
    with engine.connect() as connection:
        ids = {row.job_id: row.id for row in connection.execute(select(jobs.c.job_id, jobs.c.id))}
        found = read_jobs(connection, list(ids.values()))
        assert read_event_counts(connection)["accounting_facts_dropped", ""] == 2
    facts = {job_id: found[run_id].question.facts for job_id, run_id in ids.items()}
    assert facts == {"1": both, "2": BYTES, "3": (), "4": ()}, "a later record without any leaves them"


def test_a_backtest_knows_them(engine: Engine, tmp_path: Path) -> None:
    imported(engine, tmp_path, "1,ann,100,200,3.1e9,")
    assert profile_finished(engine, 0.0, lambda: 1e9) == 1
    with engine.connect() as connection:
        (question,) = jobs_of_database(connection, "runtime", Part(), "all").questions
    assert question.facts == BYTES
