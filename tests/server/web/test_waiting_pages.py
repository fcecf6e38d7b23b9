"""Pages show how forecasts of waiting jobs moved and what was changed of them, whatever their names."""

from __future__ import annotations

import time
from html import escape
from urllib.parse import urlencode

from flask.testing import FlaskClient
from sqlalchemy import Engine, insert
from tests import make

from jobsight_server.storage.schema import adjustments, forecast_changes

HOSTILE = "<script>alert(1)</script>"
GIB = 2**30


def test_both_stand_on_their_page_and_names_are_text(client: FlaskClient, sqlite_engine: Engine) -> None:
    now = time.time()
    job = {"cluster": "a", "job_id": HOSTILE, "user": HOSTILE, "submitted": now}
    run = {**job, "start": float("inf"), "state": "queued", "processors": 2, "recorded_at": now}
    change = {"resource": "memory", "parameter": "mem", "old": 16 * GIB, "new": 3 * GIB, "times": 1, "begun": now}
    moved = {"old_forecast": 4.0 * GIB, "new_forecast": 1.0 * GIB, "old_bound": None, "new_bound": 1.5 * GIB}
    with sqlite_engine.begin() as connection:
        run_id = make.job(connection, **run)
        connection.execute(insert(forecast_changes).values(run_id=run_id, time=now, metric="memory", **moved))
        connection.execute(
            insert(adjustments).values(**job, **change, reason="recommended", state="failed", error=HOSTILE)
        )
    page = client.get(f"/job?{urlencode({'cluster': 'a', 'name': HOSTILE})}").text
    assert "Forecast changes while it waited" in page
    assert page.index("2.00 GiB") < page.index("8.00 GiB"), "of the whole job, the new amount first"
    savings = client.get("/savings").text
    assert savings.index("16.0 GiB") < savings.index("3.00 GiB")
    for text in (page, savings):
        assert escape(HOSTILE) in text
        assert HOSTILE not in text
