"""``jobsight mcp``: the SDK's own client asks a real server, over stdio, as a user and as staff."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from tests import make
from tests.make import Jobsight
from tests.server.test_walks import RECORD

from jobsight_server.commands.mcp import JobsightApi, server_for
from site_run import JOBSIGHT, Site

TOOLS = {
    "what_will_my_job_need",
    "why_was_my_job_killed",
    "what_did_i_waste",
    "what_waits",
    "which_node_loses_jobs",
    "what_would_a_policy_do",
}
SECRET = "hidden"
"""What another user's jobs are recognised by: the user, and the application."""


def record(number: int, user: str, name: str, begin: float, gb: float, status: int = 0) -> str:
    at = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(begin + 1200))
    line = RECORD.format(at=at, number=number, user=user, name=name, begin=int(begin), end=int(begin + 1200))
    line = line.replace("session=1 ", f"owner={user}@login session=1 ").replace("status=0", f"status={status}")
    return line.replace("mem=900000kb", f"mem={gb * 2**20:.0f}kb")


@dataclass(frozen=True, slots=True)
class Assisted:
    """A served site, where ada runs `mesh` and bob something that nobody else may see; a token of each."""

    site: Site
    tokens: dict[str, Path]

    def ask(self, who: str, *calls: tuple[str, dict[str, Any]], user: str = "ada") -> list[Any]:
        """Answers of these tools, each called with its arguments by one session."""
        command = ["mcp", "--server", self.site.url, "--token-file", str(self.tokens[who]), "--user", user]
        parameters = StdioServerParameters(command=JOBSIGHT[0], args=[*JOBSIGHT[1:], *command])

        async def asked() -> list[Any]:
            async with Client(stdio_client(parameters)) as client:
                return [await client.call_tool(name, given) for name, given in calls]

        return anyio.run(asked)

    def answer(self, who: str, tool: str, **given: Any) -> dict[str, Any]:
        (found,) = self.ask(who, (tool, given))
        assert not found.is_error, found
        structured: dict[str, Any] = found.structured_content
        return structured


@pytest.fixture(scope="module")
def assisted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assisted]:
    directory = tmp_path_factory.mktemp("assisted")
    site = make.site(directory)
    now = time.time()
    lines = [record(number, "ada", "mesh", now - 3600 * (60 - 2 * number), 2 + number / 100) for number in range(20)]
    lines.append(record(100, "ada", "grow", now - 7200, 8, status=-10))
    lines += [record(200 + number, "bob", SECRET, now - 7200 + number, 5, status=-10) for number in range(3)]
    log = directory / "20261120"
    log.write_text("".join(lines))
    command = [*JOBSIGHT, "import", "torque", str(log), "--cluster", "alpha", "--database", site.database]
    subprocess.run(command, check=True, capture_output=True)
    tokens = {}
    for who, options in {"ada": ("user", "--user", "ada"), "staff": ("staff",), "submitter": ("submitter",)}.items():
        made = [*JOBSIGHT, "token", "create", "--role", *options, "--database", site.database]
        tokens[who] = directory / who
        tokens[who].write_text(subprocess.run(made, check=True, capture_output=True, text=True).stdout)
    with site.serve():
        yield Assisted(site, tokens)


def test_six_tools_that_only_read_and_take_no_user() -> None:
    async def listed() -> list[Any]:
        async with Client(server_for(JobsightApi("http://127.0.0.1:1", "t", "ada"))) as client:
            return list((await client.list_tools()).tools)

    tools = anyio.run(listed)
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        assert tool.annotations.read_only_hint
        assert "user" not in tool.input_schema["properties"]


def test_the_next_job_s_need_with_lines_to_paste_and_how_sure(assisted: Assisted) -> None:
    found = assisted.answer("ada", "what_will_my_job_need", application="mesh", processors=2, memory="8G")
    asked = re.search(r"#PBS -l mem=([0-9]+)mb", found["answer"])
    assert asked is not None
    assert 2 * 1024 < int(asked[1]) < 4 * 1024
    assert found["answer"].startswith("Request ")
    assert re.search(r"memory: [0-9]+ jobs; [0-9]+% chance of needing more", found["how_sure"])
    memory = found["evidence"]["forecasts"]["memory"]
    assert memory["similar"]["jobs"] == 20
    assert memory["exceed_probability"] < 0.2


def test_why_a_job_was_killed_and_what_to_request(assisted: Assisted) -> None:
    lately = assisted.answer("ada", "why_was_my_job_killed")
    assert lately["answer"].startswith("1 of grow ran out of memory, the last as 100.")
    (killed,) = lately["evidence"]["killed"]
    assert killed["ask_lines"][0]["scheduler"] == "pbs"
    job = assisted.answer("ada", "why_was_my_job_killed", job=killed["last"]["job_id"])
    assert "memory" in job["how_sure"]
    assert job["evidence"]["runs"][0]["failure"] == "memory"


def test_waste_and_what_recommendations_would_have_freed(assisted: Assisted) -> None:
    waste = assisted.answer("ada", "what_did_i_waste")
    assert re.match(r"On alpha, [0-9]+ jobs left [0-9]+% of [0-9.]+ requested GiB-hours unused\.", waste["answer"])
    policy = assisted.answer("ada", "what_would_a_policy_do")
    sums = policy["evidence"]["clusters"][0]["memory"]
    assert f"{sums['freed_hours']:.3g} of {sums['requested_hours']:.3g} GiB-hours" in policy["answer"]
    assert sums["freed_hours"] > 0


def test_users_hear_why_they_may_not_read_nodes_and_staff_may(assisted: Assisted) -> None:
    waits, nodes = assisted.ask("ada", ("what_waits", {}), ("which_node_loses_jobs", {}))
    assert waits.structured_content["answer"] == "0 of your jobs wait."
    assert "a token of role user may not" in waits.structured_content["how_sure"]
    assert nodes.is_error
    assert "403: a token of role user may not do this" in nodes.content[0].text
    staff = assisted.answer("staff", "which_node_loses_jobs")
    assert all(0 <= node["reliability"] <= 1 for node in staff["evidence"]["nodes"])
    assert "queues" in assisted.answer("staff", "what_waits")["evidence"]


def test_no_tool_reads_another_user_s_jobs(assisted: Assisted) -> None:
    """With the rights of a user, and with those of staff, who may read them elsewhere."""
    every = [(name, {}) for name in sorted(TOOLS)]
    guesses = [
        ("why_was_my_job_killed", {"job": "200.server"}),
        ("why_was_my_job_killed", {"job": "201"}),
        ("what_will_my_job_need", {"application": "mesh", "cluster": "alpha&name=bob"}),
        ("what_did_i_waste", {"user": "bob"}),
    ]
    for who, refused in (("ada", "404: no job"), ("staff", "job 200.server is not a job of ada")):
        answers = assisted.ask(who, *every, *guesses)
        for found in answers:
            assert SECRET not in f"{found.structured_content} {[each.text for each in found.content]}"
        assert refused in answers[len(every)].content[0].text
    for found in assisted.ask("ada", *every, user="bob"):  # the token's rights, not the option's
        assert SECRET not in f"{found.structured_content}"


def test_a_token_without_rights_and_a_server_that_is_away_are_named(assisted: Assisted) -> None:
    (refused,) = assisted.ask("submitter", ("what_did_i_waste", {}))
    assert refused.is_error
    assert "403: a token of role submitter may not" in refused.content[0].text

    async def away() -> Any:
        async with Client(server_for(JobsightApi("http://127.0.0.1:1", "t", "ada"))) as client:
            return await client.call_tool("what_waits", {})

    found = anyio.run(away)
    assert found.is_error
    assert "no answer of http://127.0.0.1:1" in found.content[0].text


def test_bad_options_say_what_to_do(jobsight: Jobsight, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOBSIGHT_TOKEN", raising=False)
    monkeypatch.delenv("JOBSIGHT_TOKEN_FILE", raising=False)
    assert "jobsight token create --role user" in jobsight("mcp", status=1).err
    assert "No such file" in jobsight("mcp", "--token-file", tmp_path / "none", status=1).err
    assert "is not an address" in jobsight("mcp", "--server", "localhost:1", status=1).err


def test_without_the_sdk_the_command_names_the_extra() -> None:
    hidden = "import sys; sys.modules['mcp'] = None; from jobsight_server.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 1
    assert "pip install 'jobsight[server,mcp]'" in done.stderr
