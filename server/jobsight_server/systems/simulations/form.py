"""Checks the input of the form on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import BinaryIO

from sqlalchemy import Connection, select

from jobsight_scheduler.policies import choose_policy
from jobsight_scheduler.workload.canonical import LARGEST_MACHINE
from jobsight_scheduler.workload.load import LOAD_AT_MOST
from jobsight_server.errors import UserError
from jobsight_server.queries.site_trace import site_trace
from jobsight_server.systems.simulations.parameters import SimulationParameters
from jobsight_server.systems.simulations.tables import simulations
from jobsight_server.systems.simulations.traces import KeptTrace, read_upload, take_lines

UPLOAD = "upload"
"""The value of ``source`` for a file; others are ``cluster:NAME`` and ``run:NUMBER``."""


def parameters_of(form: Mapping[str, str]) -> SimulationParameters:
    """The fields ``policy``, ``predictor``, ``ask_again``, ``processors`` and ``load``; empty ones were not given.

    Raises:
        UserError: naming field, value and what to do.
    """
    try:
        chosen = choose_policy(form.get("policy", ""), form.get("predictor") or None)
        chosen = chosen.asking_again() if form.get("ask_again") else chosen
    except ValueError as error:
        raise UserError(str(error)) from error
    return SimulationParameters(
        chosen.name,
        chosen.predictor,
        _processors(form.get("processors", "")),
        _load(form.get("load", "")),
        chosen.ask_again,
    )


def trace_of(
    connection: Connection,
    source: str,
    upload: tuple[BinaryIO, str] | None,
    parameters: SimulationParameters,
    limit_bytes: int,
) -> KeptTrace | str:
    """The workload named by ``source``: from a file, a cluster's finished jobs, or (as its digest) a run.

    Raises:
        UserError: there is no such source, or it cannot be simulated.
    """
    kind, _, name = source.partition(":")
    if kind == "run":
        number = int(name[:9]) if name.isascii() and name.isdigit() else 0
        digest: str | None = connection.scalar(select(simulations.c.trace).where(simulations.c.id == number))
        if digest is None:
            raise UserError(f"the trace of run {name[:20]!r} is no longer kept: choose another")
        return digest
    if kind == "cluster":
        return take_lines(site_trace(connection, name), f"finished jobs of {name}")
    if upload is None or not PurePath(upload[1]).name:
        raise UserError("choose a file of the Standard Workload Format, or other jobs")
    trace = read_upload(*upload, limit_bytes)
    if parameters.processors is None and trace.begin.max_processors is None:
        raise UserError(f"{trace.name} has no MaxProcs in its header: give the machine's processors")
    if parameters.processors is None and (trace.begin.max_processors or 0) > LARGEST_MACHINE:
        raise UserError(
            f"{trace.name}: MaxProcs: {trace.begin.max_processors} in the header; at most {LARGEST_MACHINE:,} "
            "processors are simulated: correct it, or give the machine's processors"
        )
    return trace


def _processors(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdigit() and 1 <= int(text.strip()[:9]) <= LARGEST_MACHINE):
        raise UserError(f"processors {text[:20]!r}: give a whole number from 1 to {LARGEST_MACHINE:,}, or nothing")
    return int(text)


def _load(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        load = float(text)
    except ValueError:
        load = math.nan
    if not 0.0 < load <= LOAD_AT_MOST:
        raise UserError(f"load {text[:20]!r}: give a share of the machine's time such as 0.8, or nothing")
    return load
