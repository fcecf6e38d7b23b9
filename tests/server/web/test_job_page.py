"""A job's page: its own readings, amounts beside each other, and what the next one should ask for."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace
from sqlalchemy import Engine, insert, text
from tests import make
from tests.make import not_none

from jobsight_server.advice.recommendation import JobRequest, Recommendation
from jobsight_server.advice.words import lines_to_ask
from jobsight_server.decision.evidence import ASKED_FOR, Resource, Similar
from jobsight_server.decision.rule import Decision
from jobsight_server.forecasts.prediction import no_answer
from jobsight_server.queries.efficiency import Efficiency
from jobsight_server.storage import schema
from jobsight_server.storage.job_columns import JobColumns, dump_columns
from jobsight_server.web.efficiency_text import remarks
from jobsight_server.web.verdict import of_request

MIB = 2**20
GIB = 2**30


def plant(engine: Engine, state: str = "ended") -> None:
    """Job 1 on a node that holds 20 GiB, with 4 processors, of which it kept 2 busy and then 1; and on an unknown one.

    Its cgroup held 1.5 GiB at most; a later reading belongs to no run.
    """
    run = {"cluster": "c", "start": 1000.0, "recorded_at": 1040.0}
    requests = {"processors": 4, "requested_memory_bytes": 4 * GIB, "requested_walltime_s": 60.0}
    end = {"end": 1040.0, "failure": "memory"} if state == "ended" else {"end": None}
    own = JobColumns(
        [1000.0, 1010.0, 1020.0, 1030.0, 2000.0],
        [0.0, 20.0, 40.0, 50.0, 99.0],
        [100 * MIB, 1536 * MIB, None, 200 * MIB, 9 * GIB],
        [0, 0, 0, 0, 0],
    )
    with engine.begin() as connection:
        used = {"value": 384.0 * MIB, "forecast": 256.0 * MIB, "bound": 320.0 * MIB, "attribution": "cgroup"}
        profiled = {"memory": used} if state == "ended" else {}
        make.job(connection, on={"n1": 2, "n2": 2}, used=profiled, **run, **requests, **end)
        times = {"first_time": 990.0, "last_time": 1050.0, "received_at": 1050.0}
        node_id = make.node(connection, cluster="c", cpus=16, **times)
        rows = [(float(time), 0, 0, 0.0, 20 * GIB, 0.0) for time in range(990, 1060, 10)]
        make.readings(connection, node_id, rows)
        connection.execute(
            insert(schema.job_samples).values(
                node_id=node_id, job_id="1", first_time=1000.0, last_time=2000.0, samples=5, readings=dump_columns(own)
            )
        )


def test_a_job_has_its_own_readings_and_not_those_of_its_node(client: FlaskClient, sqlite_engine: Engine) -> None:
    plant(sqlite_engine)
    (run,) = client.get("/api/v1/job?name=1&cluster=c").get_json()["runs"]
    known, unknown = run["nodes"]
    assert known["own"] == {
        "time": [1000.0, 1010.0, 1020.0, 1030.0],
        "memory_bytes": [100 * MIB, 1536 * MIB, None, 200 * MIB],
        "busy_processors": [None, 2.0, 2.0, 1.0],
    }
    assert max(known["series"]["memory_used_bytes"]) == 20 * GIB
    assert (unknown["own"], unknown["known"], unknown["series"]) == (None, False, None)


def test_thinned_readings_keep_the_peak(client: FlaskClient, sqlite_engine: Engine) -> None:
    plant(sqlite_engine)
    (run,) = client.get("/api/v1/job?name=1&cluster=c&points=2").get_json()["runs"]
    # [1000, 1020) and [1020, 1040]: the most of each, and the processors busy between their last readings.
    assert run["nodes"][0]["own"] == {
        "time": [1010.0, 1030.0],
        "memory_bytes": [1536 * MIB, 200 * MIB],
        "busy_processors": [None, 1.5],
    }


def test_readings_of_the_run_that_follows_are_not_the_first_ones(client: FlaskClient, sqlite_engine: Engine) -> None:
    plant(sqlite_engine)
    with sqlite_engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET state = 'requeued', \"end\" = 1024, profiled = false"))
        make.job(connection, cluster="c", start=1025.0)
    first, _second = client.get("/api/v1/job?name=1&cluster=c").get_json()["runs"]
    assert first["nodes"][0]["own"]["time"] == [1000.0, 1010.0, 1020.0]


def test_regions_of_two_runs_have_names_of_their_own(client: FlaskClient, sqlite_engine: Engine) -> None:
    plant(sqlite_engine)
    with sqlite_engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET state = 'requeued', \"end\" = 1024"))
        make.job(connection, cluster="c", start=1025.0, end=1040.0)
    regions = re.findall(r'role="region" aria-label="([^"]*)"', client.get("/job?cluster=c&name=1").text)
    assert len(regions) == len(set(regions)) > 2


def test_the_page_compares_request_reservation_forecast_and_use(client: FlaskClient, sqlite_engine: Engine) -> None:
    plant(sqlite_engine)
    page = client.get("/job?cluster=c&name=1").text
    table = page.partition("<h2>Requested, allocated, used, recommended</h2>")[2]
    memory = not_none(re.search(r'<tr><th scope="row">Memory</th>.*?</tr>', table, re.DOTALL))
    # 4 processors: 1.5 GiB used, 1 forecast, 1.25 reserved, 4 requested.
    cells = [
        re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r'<td class="num.*?</td>', memory[0], re.DOTALL)
    ]
    asked, given, used, share, forecast, _, reserved, _ = cells
    assert (asked, given, used, share) == ("4.00 GiB", "4.00 GiB", "1.50 GiB", "38 %")
    assert (forecast, reserved) == ("1.00 GiB", "1.25 GiB")
    assert 'title="above its bound">1.50 GiB' in memory[0]
    assert 'data-start="1000.0" data-end="1040.0" data-end-name="killed: memory"' in page
    assert 'href="/node?cluster=c&amp;name=n1"' in page
    assert 'href="/node?cluster=c&amp;name=n2"' in page
    assert "there are no samples of it" in client.get("/node?cluster=c&name=n2").text  # no agent reports from it


def test_a_running_job_has_readings_and_no_end(client: FlaskClient, sqlite_engine: Engine) -> None:
    plant(sqlite_engine, "running")
    page = client.get("/job?cluster=c&name=1").text
    assert 'data-start="1000.0">' in page
    assert client.get("/api/v1/job?name=1&cluster=c").get_json()["runs"][0]["nodes"][0]["own"] is not None


class Like(NamedTuple):
    """How the last similar job asked."""

    requested_nodes: str | None = None
    memory_word: str | None = None
    gpus: int | None = None


def lines(memory: float | None, runtime: float | None, *asked: Any) -> list[str]:
    """Lines that ask for these amounts, for a job of 4 processors on 2 nodes."""
    decisions: dict[Resource, Decision] = {
        "memory": Decision(memory, Similar(), then=8.0 * GIB),
        "runtime": Decision(runtime, Similar()),
    }
    request = JobRequest(4, 2, 8.0 * GIB, 86400.0)
    found = Recommendation(request, {}, decisions)
    return [line.text for line in lines_to_ask(found, *asked)]


PER_CPU, WALLTIME = "#SBATCH --mem-per-cpu=683M\n#SBATCH --time=1-01:30:00", "\n#PBS -l walltime=25:30:00"

PER_NODE = PER_CPU.replace("mem-per-cpu=683M", "mem=1366M\n# on each of 2 nodes")
WHOLE = "# of the whole job: divide it where LSF limits each process or host"
RESERVED = '#BSUB -R "rusage[mem=2731MB/job]"'
INSTEAD = "# in place of any --mem-per-cpu or --mem-per-gpu"


@pytest.mark.parametrize(
    ("scheduler", "like", "expected"),
    [
        ("slurm", Like(memory_word="mem-per-cpu"), [PER_CPU]),
        ("slurm", Like(memory_word="mem"), [PER_NODE]),
        ("slurm", Like(memory_word="mem-per-gpu", gpus=3), [PER_CPU.replace("mem-per-cpu=683M", "mem-per-gpu=911M")]),
        ("slurm", Like(memory_word="mem-per-gpu"), [f"{PER_NODE}\n{INSTEAD}"]),
        ("slurm", Like(), [f"{PER_NODE}\n{INSTEAD}"]),
        ("pbs", Like("2:ppn=2"), [f"#PBS -l mem=2731mb{WALLTIME}"]),
        ("pbs", Like("2:ncpus=2:mem=9gb"), [f"#PBS -l select=2:ncpus=2:mem=1366mb{WALLTIME}"]),
        ("pbs", Like("1:ncpus=3+1:ncpus=1"), [f"#PBS -l mem=2731mb{WALLTIME}"]),
        ("gridengine", None, ["#$ -l h_vmem=683M\n#$ -l h_rt=25:30:00"]),
        ("condor", None, ["request_memory = 2731M\nretry_request_memory = 8192M"]),
        ("lsf", None, [f"#BSUB -M 2731MB\n{WHOLE}\n#BSUB -W 25:30"]),
        ("lsf", Like(memory_word="rusage"), [f"#BSUB -M 2731MB\n{RESERVED}\n{WHOLE}\n#BSUB -W 25:30"]),
    ],
)
def test_lines_to_copy_are_in_the_schedulers_words(scheduler: Any, like: Like | None, expected: list[str]) -> None:
    assert lines(2731.0 * MIB, 25.5 * 3600, scheduler, like) == expected


@pytest.mark.parametrize(
    ("value", "line"), [(3601.0, ["#BSUB -We 1:01"]), (90000.0, ["#BSUB -We 25:00"]), (91801.0, [])]
)
def test_lsf_gets_the_expected_run_time_if_it_is_below_the_limit(value: float, line: list[str]) -> None:
    """The limit is 25.5 hours: jobs are killed at -W, and placed by -We."""
    expected = replace(no_answer(("c", "ann", "runtime"), 0.95, "none"), value=value)
    decisions: dict[Resource, Decision] = {name: Decision(25.5 * 3600, Similar()) for name in ASKED_FOR}
    found = Recommendation(JobRequest(1), {"runtime": expected}, decisions)
    (lines,) = lines_to_ask(found, "lsf", None, ("runtime",))
    assert lines.text.split("\n") == ["#BSUB -W 25:30", *line]


def test_without_an_amount_there_is_no_line() -> None:
    assert lines(None, None, None) == []
    assert lines(None, 60.0, "condor") == []
    assert lines(None, 60.0, "slurm") == ["#SBATCH --time=00:01:00"]
    assert [text.split()[0] for text in lines(2731.0 * MIB, None, None)] == ["#SBATCH", "#PBS"]


def test_more_used_than_asked_for_is_never_called_as_good() -> None:
    entry = Efficiency("memory", "bytes", 100.0, 310.0, 3.1, False, False, None, None)
    assert remarks(entry) == ["it used more than it requested; the need of similar jobs is not known yet"]
    assert remarks(replace(entry, ask_next=400.0)) == []
    assert remarks(replace(entry, used=50.0, efficiency=0.5)) == []


def test_the_page_begins_with_a_verdict_and_bars(client: FlaskClient, sqlite_engine: Engine) -> None:
    plant(sqlite_engine)
    page = client.get("/job?cluster=c&name=1").text
    verdict = page.partition('<section id="verdict"')[2].partition("</section>")[0]
    words = " ".join(re.sub(r"<[^>]+>", " ", verdict.partition(">")[2]).split())
    assert words == (
        "Ran out of memory and was killed; used 1.5 of 4 GiB; its processor use is unknown. "
        "Memory 38 % 1.5 of 4 GiB Processors – unknown: no source measured it Time – unknown: no source measured it"
    )
    assert re.findall(r'<rect width="([0-9.]+)"', verdict) == ["37.5"]
    assert page.index('id="verdict"') < page.index('class="facts"')


def efficiency(resource: str, requested: float | None, used: float | None, at_least: bool = False) -> Efficiency:
    share = used / requested if used and requested else None
    return Efficiency(resource, "", requested, used, share, at_least, False, None, None)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (efficiency("memory", 109 * GIB, 83 * GIB), "83 of 109 GiB"),
        (efficiency("memory", 64 * GIB, 1.5 * GIB, at_least=True), "at least 1.5 of 64 GiB"),
        (efficiency("memory", 64 * GIB, 512 * MIB), "512 MiB of 64 GiB"),
        (efficiency("memory", None, 100 * GIB), "100 GiB"),
        (efficiency("processors", 32, 22.04), "22 of 32 processors"),
        (efficiency("processors", 1, 0.5), "0.5 of 1 processor"),
        (efficiency("gpus", 2, 0.9), "0.9 of 2 GPUs"),
        (efficiency("runtime", 38700, 38701, at_least=True), "10 h 45 min of 10 h 45 min"),
    ],
)
def test_amounts_are_written_as_people_write_them(entry: Efficiency, text: str) -> None:
    assert of_request(entry) == text
