"""The plugins for Slurm in a real Lua interpreter: asked of a real server, and of servers that misbehave."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.conftest import Submission
from tests.deploy.misbehaving import (
    GARBAGE,
    busy,
    closed_port,
    drip,
    hang,
    huge,
    in_pieces,
    serving,
    slack_s,
    with_body,
)
from tests.deploy.workflow_site import answering
from tests.processes import children

SLURM = Path(__file__).parents[2] / "deploy" / "slurm"
HARNESS = Path(__file__).parent / "slurm" / "harness.lua"
LUA = shutil.which("lua5.1") or shutil.which("lua5.3") or shutil.which("lua5.4")
SAYS = (
    "Request 2300M. Your last 14 similar jobs used at most 2.10 GiB and ran at most 40 min. Keep the time limit: a "
    "shorter one frees nothing by itself, and jobs that run past it are killed. This job requests 64G and 1 d."
)


def _missing() -> str | None:
    if LUA is None:
        return "no Lua interpreter (Debian: lua5.1)"
    code = "require 'socket'; require 'cjson'"
    done = subprocess.run([LUA, "-e", code], capture_output=True, check=False)
    return None if done.returncode == 0 else "no LuaSocket or cjson (Debian: lua-socket, lua-cjson)"


pytestmark = pytest.mark.skipif(_missing() is not None, reason=_missing() or "")

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(submission: Submission, tmp_path: Path) -> Run:
    """Install the scripts and what a site chooses, and have the interpreter make these calls."""

    def start(script: str, calls: list[dict[str, Any]], port: int | None = None, **chosen: str) -> Any:
        text = (SLURM / "jobsight_submit.lua").read_text()
        here = {
            "port": str(port or submission.port), "cluster": '"alpha"', "token_file": f'"{submission.token_file}"',
            "settings_file": f'"{tmp_path}/submit.conf"',
        }  # fmt: skip
        for name, value in here.items():
            text, replaced = re.subn(rf'^(  {name} = )("[^"]*"|[^,\s]+)', rf"\g<1>{value}", text, flags=re.MULTILINE)
            assert replaced == 1, name
        (tmp_path / "submit.conf").write_text("".join(f"{name} = {value} # chosen\n" for name, value in chosen.items()))
        (tmp_path / "jobsight_submit.lua").write_text(text)
        (tmp_path / script).write_text((SLURM / script).read_text().replace("/etc/slurm/", f"{tmp_path}/"))
        shutil.copy(SLURM / "jobsight.lua", tmp_path)
        asked = json.dumps({"script": str(tmp_path / script), "calls": calls})
        environment = {**os.environ, "USER": "ada"}
        done = subprocess.run([str(LUA), HARNESS], input=asked, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        answers = json.loads(done.stdout)
        for answer in answers:  # Lua has one kind of empty table
            answer |= {name: list(answer[name]) for name in ("lines", "messages")}
        return answers

    return start


def test_no_library_comes_from_the_current_directory(tmp_path: Path) -> None:
    """It may be open to other users; Lua 5.1 even begins there."""
    for name in ("socket", "cjson"):
        (tmp_path / f"{name}.lua").write_text("os.exit(3)\n")
    code = f'local c = dofile("{SLURM}/jobsight.lua").client({{}}); assert(c.socket and c.cjson, c.problem)'
    subprocess.run([str(LUA), "-e", code], cwd=tmp_path, check=True)


def job(**fields: Any) -> dict[str, Any]:
    known = {"user_name": "ada", "name": "cfd.sh", "partition": "batch", "num_tasks": 4, "min_mem_per_node": 65536}
    return {
        "job": {name: value for name, value in (known | {"time_limit": 1440} | fields).items() if value is not None}
    }


def setting(memory: str, time: str) -> dict[str, str]:
    return {"memory": memory, "time": time}


@pytest.mark.parametrize(
    ("partition", "conf", "field"),
    [
        ({}, "", "min_mem_per_node"),
        ({"def_mem_per_cpu": 256}, "", "min_mem_per_cpu"),
        ({"def_mem_per_node": 1024}, "DefMemPerCPU=9999999\n", "min_mem_per_node"),
        ({}, "# DefMemPerCPU=9999999\n DefMemPerCPU = 256\n", "min_mem_per_cpu"),
        ({"def_mem_per_cpu": 99999}, "", None),
        ({}, "defmempernode=999999\n", None),
    ],
)
def test_a_job_without_a_request_gets_no_less_than_by_default(
    run: Run, tmp_path: Path, partition: dict[str, int], conf: str, field: str | None
) -> None:
    (tmp_path / "slurm.conf").write_text(conf)
    call = job(min_mem_per_node=None) | {"partitions": {"batch": partition}}
    [answer] = run("job_submit.lua", [call], memory="missing", limit_s="5")
    assert answer["changed"].keys() == {"admin_comment", *([field] if field else [])}


def test_memory_and_time_are_set_only_where_the_settings_say_so(run: Run) -> None:
    small = {"name": "large.sh", "min_mem_per_node": 24576, "time_limit": 60}
    missing = {"min_mem_per_node": None, "time_limit": None}
    calls = [job(), job(**small), job(**missing), job(partition="other")]
    found = {}
    for mode in ("no", "missing", "lower", "always"):
        answers = run("job_submit.lua", calls, limit_s="5", **setting(mode, mode))
        found[mode] = [set(answer["changed"]) - {"admin_comment"} for answer in answers]
        for answer, fields in zip(answers, ({}, small, missing, {}), strict=True):
            changed = answer["changed"]
            if fields is small:
                assert changed.get("min_mem_per_node", 36 * 1024) == 36 * 1024
                assert changed.get("time_limit", 90) == 90
            else:
                assert 2150 <= changed.get("min_mem_per_node", 2150) <= 6000
                assert 40 <= changed.get("time_limit", 40) <= 200
            assert ("Set: min_mem_per_node" in changed["admin_comment"]) == ("min_mem_per_node" in changed)
            assert bool(answer["lines"]) == (len(changed) > 1), "what was set is logged"
    memory, both = {"min_mem_per_node"}, {"min_mem_per_node", "time_limit"}
    assert found == {
        "no": [set(), set(), set(), set()],
        "missing": [set(), set(), both, set()],
        "lower": [memory, set(), both, memory],
        "always": [memory, both, both, memory],
    }, "no time limit is lowered"


def test_a_partition_has_settings_of_its_own_and_limits(run: Run) -> None:
    own = {"memory.batch": "always", "time.batch": "always"}
    partition = {"flag_default": 1, "max_time": 70, "max_mem_per_node": 30_000, "default_time": 7}
    large = {"name": "large.sh", "min_mem_per_node": 24576, "time_limit": 60}
    calls = [
        {**job(**large, partition=name), "partitions": {"batch": partition}} for name in (None, "batch", "batch,b", "b")
    ]
    answers = run("job_submit.lua", calls, limit_s="5", **own)
    for answer in answers[:3]:
        assert (answer["changed"]["min_mem_per_node"], answer["changed"]["time_limit"]) == (30_000, 70)
    assert answers[3]["changed"].keys() == {"admin_comment"}


def test_memory_per_processor_stays_per_processor_and_all_of_a_node_stays(run: Run) -> None:
    calls = [
        job(min_mem_per_node=None, min_mem_per_cpu=16384), job(min_mem_per_node=0),
        job(min_mem_per_node=None, mem_per_tres="gres:gpu:4096"), job(user_name=None), job(name=None, num_tasks=None),
    ]  # fmt: skip
    answers = run("job_submit.lua", calls, limit_s="5", **setting("always", "no"))
    assert 540 <= answers[0]["changed"]["min_mem_per_cpu"] <= 1500
    assert SAYS in answers[0]["changed"]["admin_comment"]
    assert "requests 1 d and has no memory request" in answers[1]["changed"]["admin_comment"]
    assert [set(answer["changed"]) for answer in answers[1:4]] == [{"admin_comment"}, {"admin_comment"}, set()]
    assert answers[4]["status"] == 0


def test_what_the_user_asked_for_is_reported_where_the_log_will_say_something_else(run: Run) -> None:
    calls = [
        job(), job(min_mem_per_node=None, min_mem_per_cpu=16384), job(min_mem_per_node=None, time_limit=None),
        job(min_mem_per_node=0), job(min_mem_per_node=None, mem_per_tres="gres:gpu:4096"),
    ]  # fmt: skip

    def reports(answers: list[dict[str, Any]]) -> list[str | None]:
        comments = [answer["changed"].get("admin_comment", "") for answer in answers]
        return [comment.partition("jobsight_asked=")[2] or None for comment in comments]

    changed = run("job_submit.lua", calls, limit_s="5", **setting("always", "no"))
    assert reports(changed) == ["mem_per_node:65536M", "mem_per_cpu:16384M", "mem_per_node:none,time:none", None, None]
    large = [job(name="large.sh", min_mem_per_node=24576, time_limit=60)]
    changed = run("job_submit.lua", large, limit_s="5", **setting("always", "always"))
    assert reports(changed) == ["mem_per_node:24576M,time:60"]
    # Where nothing is set, or nothing answers, a default of the partition is no request either.
    kept = run("job_submit.lua", calls, limit_s="5", **setting("no", "no"))
    assert reports(kept) == [None, None, "mem_per_node:none,time:none", None, None]
    silent = run("job_submit.lua", calls, closed_port())
    assert reports(silent) == reports(kept)


def test_a_default_of_the_partition_is_not_what_the_user_asks_for(run: Run) -> None:
    partition = {"flag_default": 1, "default_time": 7, "def_mem_per_cpu": 4096}
    nothing = {**job(min_mem_per_node=None, time_limit=None), "partitions": {"batch": partition}}
    [answer] = run("job_submit.lua", [nothing], limit_s="5")
    assert "has no memory request and no time limit" in answer["changed"]["admin_comment"]


def test_nothing_is_set_before_enough_such_jobs_have_been_measured(run: Run) -> None:
    [answer] = run("job_submit.lua", [job()], limit_s="5", such_jobs="15", **setting("always", "always"))
    assert answer["changed"].keys() == {"admin_comment"}


def test_the_user_gets_the_line_where_the_settings_say_so(run: Run) -> None:
    fitting = job(min_mem_per_node=4000, time_limit=90)
    for mode, counts in (("no", [0, 0]), ("notable", [1, 0]), ("always", [1, 1])):
        answers = run("job_submit.lua", [job(), fitting], limit_s="5", message=mode)
        assert [len(answer["messages"]) for answer in answers] == counts
    assert SAYS in answers[0]["messages"][0]
    [answer] = run("job_submit.lua", [job(name="100 % %s")], limit_s="5", message="notable")
    assert (answer["messages"], answer["lines"]) == ([], []), "no such job is known"


@pytest.mark.parametrize("name", ["closed", "hung", "drip", "huge", "stopped"])
def test_a_server_that_does_not_answer_costs_a_tenth_of_a_second_and_then_nothing(
    run: Run, submission: Submission, name: str
) -> None:
    calls = [job() for _ in range(5)]
    if name == "closed":
        answers = run("job_submit.lua", calls, closed_port())
    elif name == "stopped":
        assert submission.site.process is not None
        processes = [submission.site.process.pid, *children(submission.site.process.pid, recursive=True)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            answers = run("job_submit.lua", calls)
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)
    else:
        with serving({"hung": hang, "drip": drip, "huge": huge}[name]) as port:
            answers = run("job_submit.lua", calls, port)
    assert [(answer["status"], answer["changed"]) for answer in answers] == [(0, {})] * 5
    assert min(answer["seconds"] for answer in answers[:3]) < 0.1 + slack_s()
    why = {"closed": "connection refused", "huge": "an answer of more than|no answer"}.get(
        name, "no answer within 100 ms"
    )
    assert [re.search(why, line) is not None for answer in answers[:3] for line in answer["lines"]] == [True] * 3
    # The circuit is open: the fourth is not asked, which is logged once.
    assert min(answer["seconds"] for answer in answers[3:]) < 0.1
    assert [answer["lines"] for answer in answers[3:]] == [
        ["jobsight: no advice: not asked: 3 questions in a row failed"], []
    ]  # fmt: skip


def test_after_the_pause_one_question_tries_again(run: Run, submission: Submission) -> None:
    calls = [job(), job(), job(), {**job(), "sleep": 2.1}, job()]
    answers = run("job_submit.lua", calls, closed_port(), failures="2", pause_s="2")
    tried = ["connection refused" in line for answer in answers for line in answer["lines"]]
    assert tried == [True, True, False, True, False]


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_changes_nothing(run: Run, name: str) -> None:
    with serving(GARBAGE[name]) as port:
        [answer] = run("job_submit.lua", [job()], port, limit_s="5", **setting("always", "always"))
    assert (answer["status"], answer["changed"], len(answer["lines"])) == (0, {}, 1)
    assert "jobsight: no advice: " in answer["lines"][0]
    assert answer["seconds"] < 5


def test_an_answer_that_comes_in_pieces_is_read(run: Run) -> None:
    with serving(in_pieces(b'{"text": "x", "such_jobs": 99, "slurm": {"time_limit": 5}}')) as port:
        [answer] = run("job_submit.lua", [job()], port, limit_s="5", **setting("always", "always"))
    assert answer["changed"].keys() == {"admin_comment", "time_limit"}


@pytest.mark.parametrize("memory", [0, -5, "all", None, 1e300, [], {"MiB": 1}])
def test_an_answer_with_a_strange_amount_sets_no_memory(run: Run, memory: Any) -> None:
    body = {"text": "x\n\x1b[31m" + "y" * 5000, "such_jobs": 99, "slurm": {"mem": memory, "time_limit": 5}}
    with serving(with_body(json.dumps(body).encode())) as port:
        [answer] = run("job_submit.lua", [job()], port, limit_s="5", **setting("always", "always"))
    assert answer["changed"].keys() == {"admin_comment", "time_limit"}
    assert answer["changed"]["admin_comment"].isprintable()
    assert len(answer["changed"]["admin_comment"]) < 500


def test_the_server_learns_whether_memory_will_be_set(run: Run) -> None:
    asked: list[Any] = []
    with serving(answering({"text": "x", "such_jobs": 0, "slurm": {}}, asked=asked)) as port:
        for mode in ("no", "missing", "lower", "always"):
            run("job_submit.lua", [job()], port, limit_s="5", **setting(mode, "no"))
    assert [question["sets_memory"] for question in asked] == [False, False, True, True]


def test_what_is_wrong_with_the_installation_is_logged_and_costs_nothing(
    run: Run, submission: Submission, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong-token"
    wrong.write_text("wrong\n")
    empty = tmp_path / "empty-token"
    empty.touch()
    for settings, why in (
        ({"token_file": "/nowhere"}, "cannot read the token: /nowhere: No such file"),
        ({"token_file": str(empty)}, "has no token"),
        ({"token_file": str(wrong)}, "answered 401: this token is unknown or revoked"),
        ({"cluster": "beta"}, "answered 404: cluster = 'beta': unknown cluster; known: alpha"),
        ({"address": "localhost"}, "give an IP address"),
        ({"memory": "allways"}, "submit.conf: wrong line: memory = allways"),
        ({"time.batch": "5"}, "submit.conf: wrong line: time.batch = 5"),
        ({"such_jobs": "-1"}, "submit.conf: wrong line: such_jobs = -1"),
        ({"settings_file": "/etc/passwd"}, "submit.conf: wrong line: settings_file = /etc/passwd"),
        ({"message.batch": "no"}, "submit.conf: wrong line: message.batch = no"),
    ):
        answers = run("job_submit.lua", [job()] * 5, limit_s="5", **settings)
        assert [answer["status"] for answer in answers] == [0] * 5
        if "wrong line" in why:
            assert [why in line for answer in answers for line in answer["lines"]] == [True], "logged once"
            assert [answer["changed"].keys() - {"admin_comment"} for answer in answers] == [set()] * 5
        else:
            assert [answer["changed"] for answer in answers] == [{}] * 5
            assert all(why in answer["lines"][0] for answer in answers), why
    [named] = run("job_submit.lua", [job(name="\\udcff" + "n" * 3000)], limit_s="5")
    assert named["status"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user")
def test_a_user_cannot_read_the_schedulers_token(submission: Submission, open_directory: Path) -> None:
    place, token = open_directory, open_directory / "token"
    for file in (SLURM / "jobsight.lua", HARNESS):
        shutil.copy(file, place)
    shutil.copy(submission.token_file, token)
    token.chmod(0o400)
    text = (SLURM / "jobsight_submit.lua").read_text().replace("/etc/jobsight/slurm-token", str(token))
    (place / "jobsight_submit.lua").write_text(text.replace("8470", str(submission.port)))
    (place / "job_submit.lua").write_text((SLURM / "job_submit.lua").read_text().replace("/etc/slurm", str(place)))
    asked = json.dumps({"script": f"{place}/job_submit.lua", "calls": [job()]})
    command = [str(LUA), f"{place}/harness.lua"]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, user="nobody", cwd="/")
    [answer] = json.loads(done.stdout)
    assert (answer["status"], answer["changed"]) == (0, {})
    assert answer["lines"] == [f"jobsight: no advice: cannot read the token: {token}: Permission denied"]


@pytest.mark.parametrize("there", [["jobsight_submit.lua"], []])
def test_without_its_modules_the_plugin_loads_and_lets_jobs_pass(tmp_path: Path, there: list[str]) -> None:
    for name in there:
        shutil.copy(SLURM / name, tmp_path)
    script = tmp_path / "job_submit.lua"
    script.write_text((SLURM / "job_submit.lua").read_text().replace("/etc/slurm", str(tmp_path)))
    asked = json.dumps({"script": str(script), "calls": [job()]})
    done = subprocess.run([str(LUA), HARNESS], input=asked, capture_output=True, text=True, check=True)
    [answer] = json.loads(done.stdout)
    assert (answer["status"], answer["changed"]) == (0, {})


def test_the_rule_of_a_snakemake_job_is_asked_for_and_kept(run: Run) -> None:
    uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    calls = [job(name=uuid, comment="rule_cfd_wildcards_s1'\n; jobsight_asked=time:1"), job(name=uuid, comment="mine")]
    rule, other = run("job_submit.lua", calls, limit_s="5")
    assert "No similar job of yours has been measured yet" in rule["changed"]["admin_comment"]
    assert rule["changed"]["admin_comment"].endswith("; rule_cfd_wildcards_s1")
    [answer] = run("job_submit.lua", [job(comment="x jobsight:a=1e9,b=-2;jobsight_asked=time:1")], limit_s="5")
    assert answer["changed"]["admin_comment"].endswith("; jobsight:a=1e9,b=-2")
    assert "mine" not in other["changed"]["admin_comment"]


NEXTFLOW = "#!/bin/bash\n#SBATCH -J align\n# NEXTFLOW TASK: ALIGN (s1)\nset -e\n"
PROPERTIES = '#!/bin/sh\n# properties = {"type": "single", "rule": "align"}\n'


@pytest.mark.parametrize(
    ("fields", "keeper"),
    [
        ({"comment": "jobsight:keep"}, "jobsight:keep"),
        ({"comment": f"{'x' * 2000} jobsight:input_bytes=3e9,keep;"}, "jobsight:keep"),
        ({"comment": "rule_cfd_wildcards_s1", "name": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}, "Snakemake"),
        ({"name": "nf-CFD_(s1)"}, "Nextflow"),
        ({"name": "snakejob.cfd.7.sh"}, "Snakemake"),
        ({"name": "cromwell_0a1b2c3d_cfd"}, "Cromwell"),
        ({"script": NEXTFLOW}, "Nextflow"),
        ({"std_out": "/work/ab/cdef/.command.log"}, "Nextflow"),
        ({"script": PROPERTIES}, "Snakemake"),
        ({"comment": "xjobsight:keep jobsight:keepsake=1,n=2", "script": "#!/bin/sh\n"}, None),
    ],
)
def test_jobs_of_engines_and_those_to_keep_are_never_changed(
    run: Run, fields: dict[str, str], keeper: str | None
) -> None:
    [answer] = run("job_submit.lua", [job(**fields)], limit_s="5", such_jobs="1", **setting("always", "always"))
    comment = answer["changed"].pop("admin_comment")
    assert (f" Not changed: {keeper}" in comment) == (keeper is not None)
    assert bool(answer["changed"]) == (keeper is None)
    kept = re.search(r"; jobsight:(?:[^\s;]*,)?keep\b", comment) is not None
    assert kept == (keeper == "jobsight:keep"), "the log has it"


def test_a_busy_server_is_asked_again_soon_and_the_log_says_when_it_answers(run: Run, submission: Submission) -> None:
    with busy(submission.port, refused=4) as port:
        calls = [job(), job(), job(), {**job(), "sleep": 2.1}, job(), {**job(), "sleep": 3.5}, job()]
        answers = run("job_submit.lua", calls, port, limit_s="5", pause_s="60")
    said = [line.partition(": ")[2] for answer in answers for line in answer["lines"]]
    assert [bool(answer["changed"]) for answer in answers] == [False] * 5 + [True, True]
    assert "not asked" in said[4]
    assert [line for line in said if "on again" in line] == [said[5]]
    assert re.fullmatch("advice is on again, after [5-9] s without an answer", said[5])
