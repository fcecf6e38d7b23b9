"""``/simulations``: start, watch, view and compare simulations."""

from __future__ import annotations

import gzip

from flask import Blueprint, abort, redirect, request, url_for
from werkzeug.exceptions import BadRequest, NotFound, RequestEntityTooLarge
from werkzeug.wrappers import Response

from jobsight_scheduler.policies import POLICIES
from jobsight_scheduler.prediction import PREDICTORS
from jobsight_server.errors import UserError
from jobsight_server.storage.engine import LARGEST_ID
from jobsight_server.systems.simulations.form import UPLOAD, parameters_of, trace_of
from jobsight_server.systems.simulations.parameters import JOBS, PLOTS
from jobsight_server.systems.simulations.queries import (
    Comparison,
    SimulationDetail,
    SimulationList,
    clusters_with_jobs,
    comparison,
    simulation_detail,
    simulation_file,
    simulation_list,
    traces_kept,
)
from jobsight_server.systems.simulations.runs import UNDER_WAY, add_run, stop_run
from jobsight_server.systems.simulations.settings import SimulationLimits
from jobsight_server.web.kit.context import AppContext, context
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import ID, Parameter, Route
from jobsight_server.web.kit.units import size

COMPARED_AT_MOST = 8

_FIELDS_BYTES = 64 * 1024
# The parser also counts the part of a file that it is reading: pieces of 64 KiB and a remainder.
_FORM_MEMORY_BYTES = 1024 * 1024

# A plot opened by itself: it may style itself, and nothing more.
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


def simulations() -> SimulationList:
    with context().read_engine.connect() as connection:
        return simulation_list(connection, context().settings.section(SimulationLimits).kept)


def simulation() -> SimulationDetail:
    run_id = int((request.view_args or {})["id"])
    with context().read_engine.connect() as connection:
        found = simulation_detail(connection, run_id)
    if found is None:
        raise NotFound(f"no simulation {run_id}; it may have been deleted, as the oldest are")
    return found


def compared() -> Comparison:
    texts = list(dict.fromkeys(request.args.getlist("run")))
    for text in texts:
        if not _is_id(text):
            raise BadRequest(f"run={text[:40]!r} is not the number of a simulation")
    if not 2 <= len(texts) <= COMPARED_AT_MOST:
        raise BadRequest(f"choose from 2 to {COMPARED_AT_MOST} simulations to compare, not {len(texts)}")
    with context().read_engine.connect() as connection:
        found = comparison(connection, [int(text) for text in texts])
    if found is None:
        raise NotFound(f"some of the simulations {', '.join(texts)} do not exist or are not finished")
    return found


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_ID)) and int(text) <= LARGEST_ID


_RUNS = {
    "type": "array",
    "items": ID,
    "minItems": 2,
    "maxItems": COMPARED_AT_MOST,
    "uniqueItems": True,
}

SIMULATIONS = Route("GET", "/api/v1/simulations", simulations, (), "Simulations started from the pages, newest first")
SIMULATION = Route("GET", "/api/v1/simulations/{id}", simulation, (), "One simulation: its figures", errors=(404,))
COMPARISON = Route(
    "GET",
    "/api/v1/simulations/compare",
    compared,
    (),
    "Simulations side by side, with the differences from the first, paired job by job",
    (Parameter("run", "number of a finished simulation; repeat for each", _RUNS, required=True),),
    errors=(400, 404),
)
ROUTES = (SIMULATIONS, SIMULATION, COMPARISON)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/simulations", endpoint="simulations")
    def show() -> Response:
        return _list({}, None)

    @pages.post("/simulations", endpoint="simulations_start")
    def start() -> Response:
        here = context()
        limits = here.settings.section(SimulationLimits)
        limit = limits.trace_bytes
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
                run_id = add_run(connection, here.clock(), parameters, trace, limits.kept)
        except UserError as error:
            return _list(form, str(error), 400)
        return redirect(url_for("pages.simulation", id=run_id), 303)

    @pages.get("/simulations/<id:id>", endpoint="simulation")
    def show_one(**_names: int) -> Response:
        found = simulation()
        return page("simulation.html", found, SIMULATION, under_way=found.state in UNDER_WAY)

    @pages.post("/simulations/<id:run_id>/stop", endpoint="simulation_stop")
    def stop(run_id: int) -> Response:
        with context().write_engine.begin() as connection:
            stop_run(connection, run_id, context().clock())
        return redirect(url_for("pages.simulation", id=run_id), 303)

    @pages.get("/simulations/<id:run_id>/<name>.svg", endpoint="simulation_plot")
    def plot(run_id: int, name: str) -> Response:
        if name not in PLOTS:
            abort(404, f"there is no picture {name!r}; there are {', '.join(PLOTS)}")
        response = _file(run_id, f"{name}.svg", "image/svg+xml")
        response.headers["Content-Security-Policy"] = _PICTURE_POLICY
        return response

    @pages.get(f"/simulations/<id:run_id>/{JOBS}", endpoint="simulation_jobs")
    def job_table(run_id: int) -> Response:
        response = _file(run_id, JOBS, "text/csv")
        response.headers["Content-Disposition"] = f'attachment; filename="simulation-{run_id}-{JOBS}"'
        return response

    @pages.get("/simulations/compare", endpoint="simulations_compare")
    def show_comparison() -> Response:
        return page("simulations_compare.html", compared(), COMPARISON, plots=PLOTS)


def _list(form: dict[str, str], problem: str | None, status: int = 200) -> Response:
    with context().read_engine.connect() as connection:
        clusters, traces = clusters_with_jobs(connection), traces_kept(connection)
    return page(
        "simulations.html",
        simulations(),
        SIMULATIONS,
        status,
        clusters=clusters,
        traces=traces,
        policies=POLICIES,
        predictors=tuple(PREDICTORS),
        limit_bytes=context().settings.section(SimulationLimits).trace_bytes,
        form=form,
        problem=problem,
        upload=UPLOAD,
    )


def _file(run_id: int, name: str, media_type: str) -> Response:
    with context().read_engine.connect() as connection:
        content = simulation_file(connection, run_id, name)
    if content is None:
        abort(404, f"simulation {run_id} has no {name}: it is not finished, or was deleted")
    return Response(gzip.decompress(content), mimetype=media_type)


def make_part(_here: AppContext) -> None:
    """The views need nothing else."""
