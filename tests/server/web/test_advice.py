"""What a submitted job should ask for, asked in each scheduler's words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import update
from tests import make

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

GIB = 2**30


@pytest.fixture
def learned(served: Any) -> Any:
    """User `eve` ran 14 jobs of 4 processors that used up to 2.1 GiB of the 64 GiB requested, and 40 min of a day."""
    with served.engine.begin() as connection:
        for i in range(14):
            memory = (2.1 if i == 3 else 1.8 + 0.02 * (i % 5)) * GIB / 4
            make.job(
                connection, f"e{i}", id=2000 + i, cluster="gamma", start=i * 1e4, end=i * 1e4 + 2400.0, user="eve",
                name=f"cfd_{i}", queue="batch", processors=4, requested_memory_bytes=64 * GIB,
                requested_walltime_s=86400.0, used={"memory": memory, "runtime": 2400.0 - 10 * (i % 4)},
            )  # fmt: skip
        # A neighbour's job, and a share of a node, that must not count.
        for number, user, name in ((3000, "mallory", "cfd_1"), (3001, "eve", "post")):
            memory = {"value": 50.0 * GIB, "shown_only": number == 3001}
            other = {"id": number, "cluster": "gamma", "user": user, "name": name, "processors": 4}
            make.job(connection, f"x{number}", end=9e5, used={"memory": memory}, **other)
    rebuild(served.engine)
    return served


def ask(served: Any, role: str = "scheduler", **asked: Any) -> Any:
    body = {"cluster": "gamma", "user": "eve", "application": "cfd_99", "queue": "batch"} | asked
    return served.client(role).post("/api/v1/advice", json={key: value for key, value in body.items() if value})


def test_one_line_says_what_such_jobs_used_and_what_this_one_asks_for(learned: Any) -> None:
    slurm = {"num_tasks": 4, "nodes": 2, "mem": "32G", "time_limit": 1440}
    answer = ask(learned, "submitter", slurm=slurm).json
    assert re.fullmatch(
        r"Request [0-9]+[MG]\. Your last 14 similar jobs used at most 2\.10 GiB and ran at most 40 min\. "
        r"Keep the time limit: a shorter one frees nothing by itself, and jobs that run past it are killed\. "
        r"This job requests 64G and 1 d\.",
        answer["text"],
    )
    assert (answer["such_jobs"], answer["notable"], answer["processors"], answer["nodes"]) == (14, True, 4, 2)
    assert answer["such_jobs_memory_bytes"] == pytest.approx(2.1 * GIB)
    assert answer["such_jobs_runtime_s"] == 2400.0
    forecasts = {entry["metric"]: entry for entry in answer["forecasts"]}
    assert forecasts["memory"]["requested"] == 64 * GIB
    assert forecasts["memory"]["unit"] == "bytes"
    assert 1.8 * GIB <= forecasts["memory"]["forecast"] <= 2.1 * GIB <= forecasts["memory"]["reserve"] <= 6 * GIB
    attempts = forecasts["memory"]["attempts"]
    assert attempts[0] == forecasts["memory"]["reserve"]
    assert attempts == sorted(set(attempts))
    assert attempts[1] == 64 * GIB, "the request is next"
    assert forecasts["runtime"]["requested"] == 86400.0
    assert forecasts.keys() == {"memory", "runtime"}
    # The recommendation in Slurm's words covers the whole reservation, and at most a MiB per node or a minute more.
    reserve, asked = forecasts["memory"]["reserve"], answer["slurm"]
    assert 0 <= asked["mem"] * 2 * 2**20 - reserve < 2 * 2**20
    assert 0 <= asked["mem_per_cpu"] * 4 * 2**20 - reserve < 4 * 2**20
    assert (asked["time_limit"], forecasts["runtime"]["reserve"]) == (None, 86400.0), "limits are not lowered"
    assert answer["pbs"] is None


def test_no_job_gets_less_than_the_settings_allow_unless_it_asks_for_less(served: Any) -> None:
    with served.engine.begin() as connection:
        for i in range(14):
            make.job(
                connection, f"s{i}", id=2000 + i, cluster="gamma", start=i * 1e4, end=i * 1e4 + 22.0, user="eve",
                name="tiny", queue="batch", processors=4, requested_memory_bytes=4 * GIB, requested_walltime_s=86400.0,
                used={"memory": (5 + i % 3) * 2.0**20 / 4, "runtime": 20.0 + i % 3},
            )  # fmt: skip
    rebuild(served.engine)

    def answer(mem: str | None, minutes: int | None) -> tuple[Any, ...]:
        asked = {"num_tasks": 4, "mem": mem, "time_limit": minutes}
        found = ask(served, application="tiny", slurm={name: value for name, value in asked.items() if value}).json
        reserved = [entry["reserve"] for entry in found["forecasts"]]
        return found["slurm"]["mem"], found["slurm"]["time_limit"], *reserved, found["text"].partition(":")[0]

    assert answer("4G", 1440)[:4] == (100, None, 100 * 2**20, 86400.0)
    assert answer(None, None)[:4] == (100, 10, 100 * 2**20, 600.0)
    mem, minutes, *reserved, _ = answer("50M", 5)
    assert (mem, minutes, reserved) == (None, None, [50 * 2**20, 300.0])


@pytest.mark.parametrize(
    ("name", "comment", "named_by"),
    [("nf-ALIGN_(s1)", None, "Nextflow"), ("cfd_99", "rule_align_wildcards_s1", "Snakemake"), ("cfd_99", "mine", None)],
)
def test_jobs_of_workflow_engines_are_recognised(learned: Any, name: str, comment: str | None, named_by: Any) -> None:
    assert ask(learned, application=name, comment=comment, processors=4).json["engine"] == named_by


def test_all_words_for_one_request_get_one_answer(learned: Any) -> None:
    asked = [
        {"slurm": {"num_tasks": 4, "mem": "64G", "time_limit": 1440}},
        {"slurm": {"num_tasks": 2, "cpus_per_task": 2, "mem": 65536, "time_limit": "1-00"}},
        {"slurm": {"nodes": 2, "ntasks_per_node": 2, "mem": "32768M", "time_limit": "1440:00"}},
        {"slurm": {"cpus": 4, "mem_per_cpu": "16G", "time_limit": "24:00:00"}},
        {"pbs": {"select": "2:ncpus=2:mem=32gb", "walltime": "24:00:00"}},
        {"pbs": {"select": "ncpus=2:mem=32gb+1:ncpus=2:mem=32gb:host=n1", "walltime": "86400"}},
        {"pbs": {"nodes": "2:ppn=2", "mem": "64gb", "walltime": "1:00:00:00"}},
        {"pbs": {"procs": "4", "pmem": "16gb", "walltime": "24:00:00"}},
        {"processors": 4, "memory_bytes": "64gb", "walltime_s": 86400},
    ]
    answers = [ask(learned, **words).json for words in asked]
    for words, answer in zip(asked, answers, strict=True):
        assert answer["forecasts"] == answers[0]["forecasts"], words
        in_pbs_words = re.sub("([0-9])([MG])", lambda found: f"{found[1]}{found[2].lower()}b", answers[0]["text"])
        assert answer["text"] == (in_pbs_words if "pbs" in words else answers[0]["text"]), words
    asked_for = answers[4]["pbs"]
    megabytes = int(asked_for["mem"].removesuffix("mb"))
    assert 0 <= int(asked_for["pmem"].removesuffix("mb")) * 4 - megabytes <= 4
    chunk = asked_for["select"].removeprefix("2:ncpus=2:mem=").removesuffix("mb")
    assert 0 <= int(chunk) * 2 - megabytes <= 2
    assert (answers[0]["slurm"]["time_limit"], asked_for["walltime"]) == (None, None), "limits are not lowered"
    assert answers[5]["pbs"]["select"] is None, "chunks of two kinds"


def test_the_sentence_says_the_minutes_that_a_scheduler_is_given(learned: Any) -> None:
    with learned.engine.begin() as connection:
        runtime = schema.profiles.c.metric == "runtime"
        connection.execute(update(schema.profiles).where(runtime).values(value=665.0))
    rebuild(learned.engine)
    answer = ask(learned, slurm={"num_tasks": 4, "mem": "64G"}).json
    minutes, seconds = divmod(next(each for each in answer["forecasts"] if each["metric"] == "runtime")["reserve"], 60)
    assert (12 <= minutes < 60, seconds, answer["slurm"]["time_limit"]) == (True, 0, minutes)
    assert f" and {minutes:.0f} min. Your last 14 " in answer["text"]
    in_pbs_words = ask(learned, pbs={"select": "4:ncpus=1:mem=16gb"}).json["pbs"]
    assert in_pbs_words["walltime"] == f"00:{minutes:02.0f}:00"


def test_an_unlimited_or_missing_request_is_no_amount(learned: Any) -> None:
    for slurm in ({"num_tasks": 4}, {"num_tasks": 4, "mem": 0, "time_limit": "UNLIMITED"}):
        answer = ask(learned, slurm=slurm).json
        assert "This job has no memory request and no time limit." in answer["text"]
        assert answer["notable"] is False
        assert answer["slurm"]["mem"] is not None


UNREADABLE = [
    ({"slurm": {"mem": "4 elephants"}}, "slurm.mem = '4 elephants' is not an amount of memory"),
    ({"slurm": {"mem": "4G", "mem_per_cpu": "1G"}}, "slurm.mem and slurm.mem_per_cpu exclude each other"),
    ({"slurm": {"mem": "4G"}, "pbs": {"mem": "4gb"}}, "slurm, pbs: say what the job asks for in one of"),
    ({"slurm": {"mem": "4G"}, "processors": 4}, "slurm, processors: say what the job asks for in one of"),
    ({"pbs": {"select": "2:ncpus=eight"}}, "pbs.select ncpus = 'eight' is not a whole number"),
    ({"pbs": {"walltime": "soon"}}, "pbs.walltime = 'soon' is not a run time; give seconds or HH:MM:SS"),
]


def test_a_request_that_cannot_be_read_is_refused_with_its_place(served: Any) -> None:
    for asked, message in UNREADABLE:
        answer = ask(served, **asked)
        assert answer.status_code == 400, message
        assert message in answer.json["error"]


def test_facts_in_a_comment_are_part_of_the_question_and_bad_ones_refuse_nothing(learned: Any) -> None:
    plain = ask(learned, slurm={"num_tasks": 4})
    for comment in ("jobsight:input_bytes=3.1e9", "jobsight:input_bytes=nan"):
        answer = ask(learned, slurm={"num_tasks": 4}, comment=comment, facts={"input_bytes": 2})
        assert (answer.status_code, answer.json) == (200, plain.json)
