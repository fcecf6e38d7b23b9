"""Facts of jobs in questions, in the answer about a job, and on its page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy import select, update

from jobsight_server.storage.schema import jobs

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_a_page_and_the_api_show_them(served: Any) -> None:
    text = msgspec.json.encode({"input_bytes": 3.1e9, "samples": 12.5}).decode()
    with served.engine.begin() as connection:
        run = connection.execute(select(jobs).limit(1)).one()
        connection.execute(update(jobs).where(jobs.c.id == run.id).values(facts=text))
    client = served.client("scheduler")
    found = client.get(f"/api/v1/job?name={run.job_id}&cluster={run.cluster}").json["runs"]
    assert {"input_bytes": 3.1e9, "samples": 12.5} in [one["facts"] for one in found]
    client = served.person()
    page = client.get(f"/job?cluster={run.cluster}&name={run.job_id}").text
    assert '<span class="name">input_bytes</span> <span class="unit">3,100,000,000</span>, ' in page
    assert '<span class="unit">12.5</span></dd>' in page


@pytest.mark.parametrize(
    ("route", "more"),
    [("predictions", {}), ("advice", {"slurm": {"num_tasks": 1}})],
)
def test_questions_may_have_them_and_wrong_ones_are_refused(served: Any, route: str, more: dict[str, Any]) -> None:
    def status(facts: Any) -> tuple[int, str]:
        job = {"cluster": "alpha", "user": "ada", "facts": facts, **more}
        body = {"questions": [job]} if route == "predictions" else job
        answer = served.client("scheduler").post(f"/api/v1/{route}", json=body)
        return answer.status_code, answer.json.get("error", "")

    assert status({"input_bytes": 3.1e9, "never_heard_of": -1, "n": 12})[0] == 200
    assert status({})[0] == 200
    wrong: list[Any] = [{"a": "1"}, {"a": None}, {"a": True}, {"a b": 1}, {"": 1}, {"x" * 65: 1}, [1], {"a": {}}]
    for facts in (*wrong, {f"f{i}": i for i in range(33)}):
        code, error = status(facts)
        assert (code, "facts" in error) == (400, True), (facts, error)
