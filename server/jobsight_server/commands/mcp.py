"""``jobsight mcp``: answers an assistant's questions about one user's jobs, by the Model Context Protocol on stdio.

Each tool reads the HTTP API of a running server with the caller's token, so that its rights are the token's. No tool
takes a user: all ask about that of ``--user``. Answers say what to do, how sure that is, and
the figures behind it, as the API has them.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from jobsight_server.ground.errors import UserError

SERVER = "http://127.0.0.1:8470"
LIMIT_S = 30.0
LISTED = 10
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_INSTRUCTIONS = (
    "Figures of Jobsight about the jobs of one user of a compute cluster. Give `answer` to the user as it is, say "
    "`how_sure`, and use `evidence` for details. Lines to paste are complete: do not change their amounts."
)
Answer = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help=f"server to ask (default: $JOBSIGHT_SERVER, or {SERVER})")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token of the user (default: $JOBSIGHT_TOKEN_FILE, or the token in $JOBSIGHT_TOKEN)",
    )
    parser.add_argument("--user", metavar="NAME", help="user whose jobs it is about (default: who runs it)")


def run(args: argparse.Namespace) -> int:
    url = (args.server or os.environ.get("JOBSIGHT_SERVER") or SERVER).rstrip("/")
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"--server {url!r} is not an address such as {SERVER}")
    server_for(JobsightApi(url, _token(args.token_file), args.user or getpass.getuser())).run("stdio")
    return 0


def _token(file: Path | None) -> str:
    if file is None and "JOBSIGHT_TOKEN_FILE" in os.environ:
        file = Path(os.environ["JOBSIGHT_TOKEN_FILE"])
    try:
        found = os.environ.get("JOBSIGHT_TOKEN", "") if file is None else file.read_text()
    except OSError as error:
        raise UserError(f"--token-file {file}: {error.strerror}") from error
    if not found.strip():
        raise UserError("no token: jobsight token create --role user --user NAME makes one; give it by --token-file")
    return found.strip()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is for one server."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class JobsightApi:
    """The API of the server at ``url``, read with ``token`` about ``user``."""

    url: str
    token: str
    user: str

    def get(self, path: str, **query: Any) -> Any:
        """Return the answer of ``/api/v1/PATH``.

        Raises:
            ToolError: the server refused, or does not answer; the message says why.
        """
        given = urllib.parse.urlencode({name: value for name, value in query.items() if value is not None})
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}?{given}", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=LIMIT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise ToolError(f"{error.code}: {_reason(error)}") from error
        except (OSError, ValueError) as error:
            raise ToolError(f"no answer of {self.url}: {error}") from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)


def server_for(api: JobsightApi) -> MCPServer[Any]:
    """Return the server of the six tools."""
    server: MCPServer[Any] = MCPServer("jobsight", instructions=_INSTRUCTIONS, log_level="WARNING")
    tool = server.tool(annotations=_READS)

    @tool
    def what_will_my_job_need(
        application: str | None = None,
        processors: int | None = None,
        memory: str | None = None,
        walltime: str | None = None,
        queue: str | None = None,
        cluster: str | None = None,
    ) -> Answer:
        """Say how much memory and time the next job should request, with lines to paste into its script.

        Without a job's name (application) it is taken to be like the last one. memory and walltime are what the user
        would request for the whole job, such as 4G and 02:00:00.
        """
        described = {"application": application, "processors": processors, "memory_bytes": memory}
        found = api.get("user", name=api.user, cluster=cluster, queue=queue, walltime_s=walltime, **described)
        job = found["next_job"]
        if job is None:
            return _answer("No job of yours has ended yet, so nothing is known.", "unknown", found)
        forecasts = {each["metric"]: each for each in job.pop("forecasts")}
        sure = [_sure(name, forecasts.get(metric)) for metric, name in (("memory", "memory"), ("runtime", "run time"))]
        lines = "".join(f"\n{each['text']}" for each in job["ask_lines"])
        kept = {name: _forecast(forecasts[name]) for name in ("memory", "runtime") if name in forecasts}
        return _answer(f"{job['text']}{lines}", " ".join(sure), job | {"forecasts": kept})

    @tool
    def why_was_my_job_killed(job: str | None = None, cluster: str | None = None) -> Answer:
        """Say what a job used of its request, what it ran out of, and what to request instead.

        job is its id; without one, the answer is about the jobs killed in the last seven days.
        """
        if job is not None:
            found = api.get("efficiency", name=job, cluster=cluster)
            if any(each["user"] != api.user for each in found["runs"]):  # a token of staff reads all
                raise ToolError(f"job {job} is not a job of {api.user}")
            return _answer(found.pop("text"), _measured(found), found)
        found = api.get("user/jobs", user=api.user, cluster=cluster, limit=1)
        texts = [
            f"{each['jobs']} of {each['last']['name']} ran out of {each['last']['failure']}, the last as "
            f"{each['last']['job_id']}. {each['advice'] or ''}"
            for each in found["killed"]
        ]
        text = " ".join(texts) or "No job of yours was killed for memory or time in the last seven days."
        return _answer(text, "The scheduler's log says why it killed each.", {"killed": found["killed"]})

    @tool
    def what_did_i_waste(cluster: str | None = None) -> Answer:
        """Say how much requested memory, processors and time the jobs of the last month left unused, by application."""
        found = api.get("user/jobs", user=api.user, cluster=cluster, limit=1)["waste"]
        texts = [
            f"On {each['cluster']}, {each['memory']['jobs']} jobs left {_percent(each['memory']['unused_share'])} of "
            f"{each['memory']['requested_hours']:.3g} requested GiB-hours unused."
            for each in found
            if each["memory"]["jobs"]
        ]
        left = sum(each["left_out"]["memory"]["without_use"] for each in found)
        sure = f"Measured jobs only; {left} jobs without measured memory are left out."
        return _answer(" ".join(texts) or "No job with a memory request was measured.", sure, {"clusters": found})

    @tool
    def what_waits(cluster: str | None = None) -> Answer:
        """Say which jobs of the user wait, since when, and how long jobs of the queues waited lately."""
        own = api.get("jobs", user=api.user, state="queued", cluster=cluster, limit=LISTED)
        evidence: dict[str, Any] = {"jobs": own["jobs"]}
        try:
            site = api.get("queue", cluster=cluster)
            evidence["queues"] = site["queues"]
            sure = "The queues' waits are those of the month's jobs, which had other requests."
        except ToolError as error:  # users may not read the site's queue
            sure = f"How long others waited is unknown here ({error})."
        return _answer(f"{own['total']} of your jobs wait.", sure, evidence)

    @tool
    def which_node_loses_jobs(cluster: str | None = None) -> Answer:
        """Say on which nodes jobs fail most, by their history. Needs a token of staff."""
        order = {"sort": "reliability", "order": "asc", "limit": LISTED}
        found = [
            {name: node[name] for name in ("cluster", "name", "status", "reliability", "boots", "age_s")}
            for node in api.get("nodes", cluster=cluster, **order)["nodes"]
            if node["reliability"] is not None
        ]
        worst = [f"{node['name']} ({_percent(node['reliability'])})" for node in found[:3]]
        text = f"Least reliable for a job of 6 hours: {', '.join(worst)}." if worst else "No node has a history yet."
        return _answer(
            text, "The chance that such a job succeeds there, by sessions and jobs so far.", {"nodes": found}
        )

    @tool
    def what_would_a_policy_do(cluster: str | None = None) -> Answer:
        """Say what requesting as recommended would have freed on this user's jobs, and which would have run out.

        Other policies, such as backfilling by forecasts, need a replay: `jobsight simulate`, by an administrator.
        """
        found = api.get("user/jobs", user=api.user, cluster=cluster, limit=1)["waste"]
        texts = [
            f"On {each['cluster']}, requesting memory as recommended would have freed "
            f"{each['memory']['freed_hours']:.3g} of {each['memory']['requested_hours']:.3g} GiB-hours "
            f"({_percent(each['memory']['freed_share'])}); {each['memory']['would_run_out']} of "
            f"{each['memory']['jobs']} jobs would have run out, {each['memory']['ran_out']} did."
            for each in found
            if each["memory"]["jobs"]
        ]
        sure = "By the recommendation at each submission, which knew earlier jobs only; runs that fail are charged."
        return _answer(
            " ".join(texts) or "No job with a request, a measured use and a bound.", sure, {"clusters": found}
        )

    return server


def _answer(text: str, how_sure: str, evidence: Any) -> Answer:
    return {"answer": text, "how_sure": how_sure, "evidence": evidence}


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{share:.0%}"


def _sure(name: str, forecast: Mapping[str, Any] | None) -> str:
    if forecast is None or forecast["bound"] is None:
        return f"{name}: unknown, {(forecast or {}).get('reason') or 'nothing was measured'}."
    held, risk = forecast["observed_coverage"], forecast["exceed_probability"]
    lately = "" if held is None else f"; of such bounds {_percent(held)} held"
    return f"{name}: {forecast['n']} jobs; {_percent(risk)} chance of needing more{lately}."


_OF_FORECAST = (
    *("unit", "value", "bound", "n", "level", "probability", "exceed_probability", "coverage", "observed_coverage"),
    *("similar", "attempts", "last_values", "reason"),
)


def _forecast(found: Mapping[str, Any]) -> Answer:
    return {name: found[name] for name in _OF_FORECAST}


def _measured(found: Mapping[str, Any]) -> str:
    bounds = [each["resource"] for run in found["runs"] for each in run["efficiency"] if each["at_least"]]
    return f"At least, not exact: {', '.join(sorted(set(bounds)))}." if bounds else "Measured values are exact."
