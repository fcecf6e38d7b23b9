"""A user's page on planted jobs: applications checked against SQL, what-if questions, whose figures are shown."""

from __future__ import annotations

import re
from html import unescape
from statistics import median
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import insert, update
from tests import make

from jobsight_server.learning.finished import profile_finished
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

DAY_S = 86_400.0
T0 = 1_693_526_400.0  # that day
MIB = 2**20

# GiB requested and MiB used by each processor, hours of run time and of its limit, how many jobs.
PLANTED = {"mesh": (8, 300, 2, 10, 30), "solve": (2, 900, 1, 2, 41), "render": (4, 3000, 1, 2, 3)}
RUN = {"cluster": "gamma", "queue": "batch", "account": "physics", "group": "hpc", "processors": 4, "recorded_at": 0.0}


@pytest.fixture(autouse=True)
def planted(served: Any) -> None:
    """Kim's jobs, two a day, with numbered names; lee's with the same names, which are much larger."""
    rows = []
    for user, times in (("kim", 1), ("lee", 9)):
        for application, (gib, mib, run_h, limit_h, count) in PLANTED.items():
            for number in range(count):
                start = T0 + number * DAY_S / 2
                rows.append(
                    RUN | {"id": 5000 + len(rows), "job_id": f"{5000 + len(rows)}", "user": user, "start": start}
                    | {"name": f"{application}_{number}", "application": application, "submitted": start - 10}
                    | {"end": start + 3600 * (run_h + number % 3 / 10), "state": "ended", "profiled": False}
                    | {"requested_memory_bytes": gib * 4 * times * 2**30, "requested_walltime_s": limit_h * 3600.0}
                    | {"used_memory_bytes": (mib + number % 7) * MIB * 4 * times, "used_cpu_s": 3600.0}
                )  # fmt: skip
    rows.append(rows[0] | {"id": 6000, "job_id": "6000", "state": "requeued"})
    make.execute(served.engine, insert(schema.jobs), rows)
    assert profile_finished(served.engine, 0.0, lambda: T0 + 1e8) == len(rows) - 1


KIM = {"cluster": "gamma", "name": "kim"}


def get(client: FlaskClient, path: str, **query: Any) -> Any:
    return make.answered(client.get(f"/api/v1/{path}", query_string={"cluster": "gamma"} | query))


@pytest.mark.parametrize("days", [("2023-09-01", "2023-09-30"), ("2023-09-03", "2023-09-10")])
def test_applications_are_what_sql_counts(served: Any, days: tuple[str, str]) -> None:
    client = served.client("scheduler")
    found = get(client, "user/applications", name="kim", since=days[0], until=days[1])
    first, end = (T0 + (int(day[-2:]) - 1) * DAY_S for day in days)
    query = (
        "SELECT j.application, j.requested_memory_bytes / 4.0, j.requested_walltime_s, m.value, r.value, c.value "
        "FROM jobs j JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory' JOIN profiles r ON r.run_id = j.id "
        "AND r.metric = 'runtime' JOIN profiles c ON c.run_id = j.id AND c.metric = 'cpu' WHERE j.user = 'kim' "
        "AND j.cluster = 'gamma' AND j.state = 'ended' AND j.\"end\" >= :first AND j.\"end\" < :end"
    )
    rows = make.rows(served.engine, query, {"first": first, "end": end + DAY_S})
    assert {row["application"] for row in found["applications"]} == {row[0] for row in rows}
    assert found["jobs"] == len(rows)
    freed = [row["memory_advice"]["freed_hours"] for row in found["applications"]]
    assert freed == sorted(freed, reverse=True)
    assert found["applications"][0]["application"] == "mesh", "8 GiB requested, 0.3 used"
    for shown in found["applications"]:
        columns = list(zip(*(row[1:] for row in rows if row[0] == shown["application"]), strict=True))
        assert shown["jobs"] == len(columns[0])
        assert (shown["requested_memory_bytes"], shown["requested_walltime_s"]) == tuple(map(median, columns[:2]))
        for metric, values in zip(("memory", "runtime", "cpu"), columns[2:], strict=True):
            least = min(value for value in values if sum(other <= value for other in values) >= 0.95 * len(values))
            assert shown[metric] == {"jobs": len(values), "median": pytest.approx(median(values)), "p95": least}
        # The number is that of the list which it links to.
        span = {"since": days[0], "until": days[1], "state": "ended"}
        assert get(client, "jobs", user="kim", application=shown["application"], **span)["total"] == shown["jobs"]
    page = served.person().get(f"/user?cluster=gamma&name=kim&since={days[0]}&until={days[1]}").text
    (link,) = re.findall(r'href="([^"]*)" title="mesh"', page)
    jobs = served.person().get(unescape(link)).text
    what_if = unescape(next(href for href in re.findall(r'href="([^"]*)#what-if">What if', page) if "=mesh" in href))
    assert all(part in what_if for part in ("processors=4", "memory_bytes=32G", "walltime_s=10:00:00", "queue=batch"))
    asked = unescape(served.person().get(what_if).text)
    mesh = found["applications"][0]
    assert mesh["ask_lines"][0]["text"] in asked.partition('id="next"')[2], "as the table says"
    assert jobs.count("data-row=") == found["applications"][0]["jobs"]


def test_what_if_is_answered_as_submission_is_and_without_scripts(served: Any) -> None:
    asked = {"application": "mesh", "processors": 4, "memory_bytes": "32G", "walltime_s": "10:00:00", "queue": "batch"}
    slurm = {"num_tasks": 4, "mem_per_cpu": "8G", "time_limit": 600}
    job = {"cluster": "gamma", "user": "kim", "application": "mesh", "queue": "batch", "slurm": slurm}
    advice = served.client("submitter").post("/api/v1/advice", json=job).json
    found = get(served.client("scheduler"), "user", name="kim", **asked)["next_job"]
    assert (found["like_job"], found["processors"], found["memory_bytes"]) == (None, 4, 32 * 2**30)
    assert found["text"] == advice["text"]
    assert advice["slurm"]["mem_per_cpu"] < 8192
    per_cpu = advice["slurm"]["mem_per_cpu"]
    (lines,) = [entry["text"] for entry in found["ask_lines"] if entry["scheduler"] == "slurm"]
    whole = (4 * (per_cpu - 1), 4 * per_cpu + 1)
    memory, time_limit, note = lines.splitlines()
    assert whole[0] <= int(memory.removeprefix("#SBATCH --mem=").removesuffix("M")) <= whole[1]
    assert time_limit == "#SBATCH --time=04:30:00", "in the line only; scripts keep the request"
    assert next(each["reserve"] for each in advice["forecasts"] if each["metric"] == "runtime") == 36_000
    assert note == "# in place of any --mem-per-cpu or --mem-per-gpu"
    predicted = get(served.client("scheduler"), "predictions", user="kim", per="job", **asked)["predictions"]
    assert found["forecasts"] == predicted
    page = unescape(served.person().get("/user", query_string=KIM | asked).text)
    assert f'<p class="advice">{advice["text"]}</p>' in page
    assert lines in page
    assert 'name="memory_bytes" maxlength="40" size="10" placeholder="64G" value="32G"' in page
    unknown = served.person().get("/user", query_string=KIM | asked | {"application": "never"}).text
    row = re.search(r'<th scope="row">Memory.*?</tr>', unknown[unknown.index('id="next"') :], re.DOTALL)
    assert row
    assert re.findall(r'<td class="num[^>]*>([^<]*)', row[0])[:2] == ["–", "–"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"memory_bytes": "much"}, "memory_bytes = 'much' is not an amount of memory; give bytes such as 4294967296"),
        ({"application": "a\0b"}, "contains a character that no name can have"),
    ],
)
def test_what_cannot_be_read_is_said_beside_the_form(served: Any, bad: dict[str, str], message: str) -> None:
    query = {"queue": "<b>batch"} | bad
    answer = served.person().get("/user", query_string=KIM | query)
    page = unescape(answer.text)
    assert (answer.status_code, message in page, "Your last" in page) == (400, True, True)
    assert 'value="<b>batch"' in page, "what was entered stays"
    assert "&lt;b&gt;batch" in answer.text
    (polled,) = re.findall(r'data-json="([^"]*)"', page)
    assert not set(bad) & set(re.findall(r"(\w+)=", polled)), "what is polled is the job like the last"
    refused = served.client("scheduler").get("/api/v1/user", query_string=KIM | bad)
    assert (refused.status_code, message in refused.json["error"]) == (400, True)


def test_figures_of_other_users_are_called_so(served: Any) -> None:
    with served.engine.begin() as connection:
        new = RUN | {"id": 7000, "job_id": "7000", "user": "new", "start": T0, "state": "running", "profiled": False}
        connection.execute(insert(schema.jobs).values(new))
        count_all(connection)
    client = served.client("scheduler")
    kim = get(client, "user", name="kim")["next_job"]
    assert kim["borrowed"] == []
    asked = {"application": "mesh", "processors": 4, "queue": "batch"}
    # A job is waiting or running, so that there is a page; nothing of this user has been measured.
    found = get(client, "user", name="new", **asked)["next_job"]
    memory = next(entry for entry in found["borrowed"] if entry["metric"] == "memory")
    assert (memory["own_jobs"], "user" in memory["level"]) == (0, False)
    assert "No similar job is known, so treat this as an estimate from other jobs." in found["text"]
    new_user = {"cluster": "gamma", "name": "new"}
    page = " ".join(unescape(served.person().get("/user", query_string=new_user | asked).text).split())
    assert "These figures are not based on new's own jobs" in page
    words = f"Memory: {memory['n']} jobs of all users"
    assert words in page
    assert "on gamma, because no job of new has been measured." in page
    assert re.search(r"Memory <span class=.unit under.>of other users", page)
    bare = served.person().get("/user", query_string=new_user).text
    assert "no job of this user has finished yet: describe one above" in bare


def test_a_model_that_has_learned_nothing_yet_says_so(served: Any) -> None:
    with served.engine.begin() as connection:
        for table in (schema.model_state, schema.series):
            connection.execute(table.delete())
        connection.execute(update(schema.jobs).values(requested_walltime_s=1800.0))  # all ran longer
    page = served.person().get("/user", query_string=KIM)
    assert page.status_code == 200
    assert "no job with a value has ended on this cluster yet" in page.text
    assert "No similar job of yours has been measured yet." in page.text
