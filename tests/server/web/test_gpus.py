"""GPU memory and GPU utilisation: learned, forecast and shown like the other metrics, and only where GPUs are used."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from tests import make
from tests.make import Jobsight
from tests.server.web.test_one_answer import learn, run

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

GIB = 2**30
GPU_METRICS = ["gpu_memory", "gpu_utilisation"]
OTHERS = ["bandwidth", "memory", "cpu", "runtime"]


@pytest.fixture
def site(served: Any) -> Any:
    """Eight jobs of `kim` with two GPUs each and eight of `joe` without any, learned."""
    with served.engine.begin() as connection:
        for number in range(8):
            used = {"gpu_memory": (30.0 + number / 10) * GIB, "gpu_utilisation": 0.9}
            run(connection, number, processors=4, gpus=2, used=json.dumps(used))
            run(connection, number, id=6000 + number, job_id=f"j{number}", user="joe")
    learn(served)
    return served


def predictions(served: Any, **question: Any) -> list[Any]:
    asked = {"questions": [{"cluster": "gamma", **question}]}
    return make.answered(served.client("scheduler").post("/api/v1/predictions", json=asked))["predictions"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("more", [{}, {"application": "solve", "processors": 4}])
def test_predictions_have_them_for_users_of_gpus(site: Any, more: dict[str, Any]) -> None:
    of_kim = predictions(site, user="kim", **more)
    assert [answer["metric"] for answer in of_kim] == [*OTHERS, *GPU_METRICS]
    memory, gpus = of_kim[4:]
    assert (memory["unit"], memory["per"], gpus["unit"]) == ("bytes", "job", "GPUs")
    assert 30 * GIB <= memory["value"] <= memory["bound"] <= 62 * GIB
    assert memory["attempts"][0] == memory["bound"]
    assert gpus["value"] == pytest.approx(0.9)
    assert [answer["metric"] for answer in predictions(site, user="joe", **more)] == OTHERS
    # As a scheduler asks that knows the user only: from what is stored.
    fast = site.client("scheduler").get("/api/v1/predictions?cluster=gamma&user=kim")
    assert [answer["metric"] for answer in fast.json["predictions"]] == [*OTHERS, *GPU_METRICS]


def test_a_job_that_requests_gpus_is_forecast_in_them_and_no_other(site: Any) -> None:
    for asked in ({"user": "joe"}, {"user": "kim"}, {"user": "kim", "application": "solve"}):
        for gpus, metrics in ((2, [*OTHERS, *GPU_METRICS]), (0, OTHERS)):
            assert [answer["metric"] for answer in predictions(site, gpus=gpus, **asked)] == metrics
            query = urlencode({"cluster": "gamma", "gpus": gpus, **asked})
            found = site.client("scheduler").get(f"/api/v1/predictions?{query}").json["predictions"]
            assert [answer["metric"] for answer in found] == metrics
    assert site.client("scheduler").get("/api/v1/predictions?cluster=gamma&user=kim&gpus=-1").status_code == 400


def test_advice_has_them_as_predictions_do(site: Any) -> None:
    """Where the job requests GPUs; where that is unknown, for users of GPUs."""
    for user, gpus, metrics in (("kim", 2, GPU_METRICS), ("kim", 0, []), ("kim", None, GPU_METRICS), ("joe", None, [])):
        asked = {"cluster": "gamma", "user": user, "application": "solve", "processors": 4, "gpus": gpus}
        answer = site.client("submitter").post("/api/v1/advice", json=asked)
        assert [one["metric"] for one in answer.json["forecasts"]] == ["memory", "runtime", *metrics]
    of_kim = site.client("submitter").post("/api/v1/advice", json={**asked, "user": "kim", "gpus": 2}).json
    memory, gpus_busy = of_kim["forecasts"][2:]
    assert 30 * GIB <= memory["forecast"] <= memory["reserve"] == memory["attempts"][0]
    assert (memory["requested"], gpus_busy["requested"], gpus_busy["forecast"]) == (None, 2, pytest.approx(0.9))
    assert site.client("submitter").post("/api/v1/advice", json={**asked, "gpus": -1}).status_code == 400


def test_pages_show_them_where_they_were_used(site: Any) -> None:
    client = site.person()
    job = " ".join(client.get("/job?cluster=gamma&name=7").text.split())
    assert '<th scope="row">GPU memory</th>' in job
    assert "30.7 GiB" in job, "of the whole job, whatever its processors"
    assert ">0.9</td>" in job
    assert "GPU" not in client.get("/job?cluster=gamma&name=j7").text
    assert "GPU memory" in client.get("/user?cluster=gamma&name=kim").text
    assert "GPU" not in client.get("/user?cluster=gamma&name=joe").text
    assert "GPU memory" in client.get("/accuracy").text, "the accuracy of its forecasts"


def test_a_site_without_gpus_reads_nothing_of_them(served: Any) -> None:
    client = served.person()
    for page in ("/", "/user?cluster=alpha&name=ada", "/waste", "/accuracy"):
        assert "GPU" not in client.get(page).text, page


def test_commands_say_what_gpus_were_used(site: Any, jobsight: Jobsight) -> None:
    lines = [line.split() for line in jobsight("seff", "7", "--cluster", "gamma", on=site.engine).out.splitlines()]
    (gpus,) = [line for line in lines if line[:1] == ["GPUs"]]
    assert gpus == ["GPUs", "2", "0.9", "45", "%", "-"], "of two asked for, at most 0.9 were busy"
    assert "30.7 GiB" in " ".join(next(line for line in lines if line[:2] == ["GPU", "memory"]))
    shown = jobsight("predict", "--cluster", "gamma", "--user", "kim", "--processors", "4", on=site.engine).out
    assert "GPU memory" in shown
    assert "GPU memory: from 8 jobs of this user" in " ".join(shown.split())
    assert "GPU" not in jobsight("predict", "--cluster", "gamma", "--user", "joe", on=site.engine).out
