"""``/simulations``: start one, watch it, look at it, compare several."""

from __future__ import annotations

import gzip
from typing import Any

from flask import Blueprint, Response, abort, make_response, redirect, render_template, request, url_for
from werkzeug.exceptions import BadRequest, RequestEntityTooLarge
from werkzeug.wrappers import Response as AnyResponse

from jobsight_scheduler.policies import DEFAULT_PREDICTOR, POLICIES, PREDICTING, PREDICTORS
from jobsight_server.auth.guard import require_same_origin
from jobsight_server.errors import UserError
from jobsight_server.pages.twin import respond
from jobsight_server.pages.units import size
from jobsight_server.simulations.asked import UPLOAD, parameters_of, trace_of
from jobsight_server.simulations.execute import JOBS, PLOTS
from jobsight_server.simulations.runs import UNDER_WAY, add_run, stop_run
from jobsight_server.site import site
from jobsight_server.views.simulations import (
    clusters_with_jobs,
    comparison,
    simulation_detail,
    simulation_file,
    simulation_list,
    traces_kept,
)

COMPARED_AT_MOST = 8

_FIELDS_BYTES = 64 * 1024
# The parser counts pieces of files, of 64 KiB and a rest, while it looks at them.
_FORM_MEMORY_BYTES = 1024 * 1024

# A picture that is opened by itself: it may style itself, and nothing more.
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


def add_routes(pages: Blueprint) -> None:
    @pages.get("/simulations", endpoint="simulations")
    def show() -> Response:
        return _list({}, None)

    @pages.post("/simulations", endpoint="simulations_start")
    def start() -> AnyResponse:
        require_same_origin()
        here = site()
        limit = here.settings.simulation_trace_bytes
        request.max_content_length = limit + _FIELDS_BYTES
        request.max_form_memory_size = _FORM_MEMORY_BYTES
        try:
            form = request.form.to_dict()
        except RequestEntityTooLarge:
            return _list({}, f"the file is longer than {size(limit)}: send a part of it, or compress it (.gz)", 413)
        file = request.files.get("trace")
        try:
            parameters = parameters_of(form)
            with here.read_engine.connect() as connection:
                upload = None if file is None or not file.filename else (file.stream, file.filename)
                trace = trace_of(connection, form.get("source", UPLOAD), upload, parameters, limit)  # type: ignore[arg-type]
            with here.write_engine.begin() as connection:
                run_id = add_run(connection, here.clock(), parameters, trace, here.settings.simulations_kept)
        except UserError as error:
            return _list(form, str(error), 400)
        return redirect(url_for("pages.simulation", run_id=run_id), 303)

    @pages.get("/simulations/<int:run_id>", endpoint="simulation")
    def show_one(run_id: int) -> Response:
        with site().read_engine.connect() as connection:
            data = simulation_detail(connection, run_id)
        if data is None:
            abort(404, f"there is no simulation {run_id}, or it had to go; the oldest are deleted first")
        return respond("simulation.html", data, under_way=data["state"] in UNDER_WAY)

    @pages.post("/simulations/<int:run_id>/stop", endpoint="simulation_stop")
    def stop(run_id: int) -> AnyResponse:
        require_same_origin()
        with site().write_engine.begin() as connection:
            stop_run(connection, run_id, site().clock())
        return redirect(url_for("pages.simulation", run_id=run_id), 303)

    @pages.get("/simulations/<int:run_id>/<name>.svg", endpoint="simulation_plot")
    def plot(run_id: int, name: str) -> Response:
        if name not in PLOTS:
            abort(404, f"there is no picture {name!r}; there are {', '.join(PLOTS)}")
        response = _file(run_id, f"{name}.svg", "image/svg+xml")
        response.headers["Content-Security-Policy"] = _PICTURE_POLICY
        return response

    @pages.get(f"/simulations/<int:run_id>/{JOBS}", endpoint="simulation_jobs")
    def job_table(run_id: int) -> Response:
        response = _file(run_id, JOBS, "text/csv")
        response.headers["Content-Disposition"] = f'attachment; filename="simulation-{run_id}-{JOBS}"'
        return response

    @pages.get("/simulations/compare", endpoint="simulations_compare")
    def show_comparison() -> Response:
        texts = list(dict.fromkeys(request.args.getlist("run")))
        if not 2 <= len(texts) <= COMPARED_AT_MOST or not all(t.isascii() and t.isdigit() for t in texts):
            raise BadRequest(f"choose from 2 to {COMPARED_AT_MOST} simulations to compare, not {len(texts)}")
        with site().read_engine.connect() as connection:
            data = comparison(connection, [int(text[:9]) for text in texts])
        if data is None:
            abort(404, f"of the simulations {', '.join(t[:9] for t in texts)}, some are not there or not done")
        return respond("simulations_compare.html", data, plots=PLOTS)


def _list(form: dict[str, str], problem: str | None, status: int = 200) -> Response:
    here = site()
    with here.read_engine.connect() as connection:
        data = simulation_list(connection, here.settings.simulations_kept)
        shown: dict[str, Any] = {"clusters": clusters_with_jobs(connection), "traces": traces_kept(connection)}
    shown |= {
        "policies": POLICIES,
        "predictors": tuple(PREDICTORS),
        "predicting": PREDICTING,
        "default_predictor": DEFAULT_PREDICTOR,
        "limit_bytes": here.settings.simulation_trace_bytes,
        "form": form,
        "problem": problem,
        "upload": UPLOAD,
    }
    if problem is None:
        return respond("simulations.html", data, **shown)
    twin = url_for("pages.simulations", format="json")
    return make_response(render_template("simulations.html", data=data, twin=twin, **shown), status)


def _file(run_id: int, name: str, media_type: str) -> Response:
    with site().read_engine.connect() as connection:
        content = simulation_file(connection, run_id, name)
    if content is None:
        abort(404, f"simulation {run_id} has no {name}: it is not done, or had to go")
    return Response(gzip.decompress(content), mimetype=media_type)
