"""The hook for PBS and the filter for TORQUE: asked of a real server, and of servers that misbehave."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import re
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deploy.conftest import Submission
from tests.deploy.misbehaving import GARBAGE, busy, closed_port, drip, hang, huge, serving, slack_s, with_body
from tests.deploy.workflow_site import answering

DEPLOY = Path(__file__).parents[2] / "deploy"
SAYS = (
    "Request 2300mb. Your last 14 similar jobs used at most 2.10 GiB and ran at most 40 min. Keep the time limit: a "
    "shorter one frees nothing by itself, and jobs that run past it are killed. This job requests 64gb and 1 d."
)
FILTER = runpy.run_path(str(DEPLOY / "torque" / "submit-filter"), run_name="filter")
ASKED = {"select": "2:ncpus=2:mem=32gb", "walltime": "24:00:00"}


def with_settings(text: str, chosen: Path, **values: object) -> str:
    """The script's text with these settings; the site's file has those that it lacks."""
    lines = []
    for name, value in {"settings_file": str(chosen), **values}.items():
        place = rf'^( *"{name}": |{name} = )("[^"]*"|[^,\s]+)'
        text, count = re.subn(place, lambda found: found[1] + repr(value), text, flags=re.MULTILINE)  # noqa: B023
        if not count:
            lines.append(f"{name} = {value}\n")
    chosen.write_text("# chosen\n" + "".join(lines))
    return text


def setting(memory: str, time: str) -> dict[str, Any]:
    return {"memory": memory, "time": time}


@pytest.fixture
def pbs() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("pbs", Path(__file__).parent / "pbs" / "pbs.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["pbs"] = module
    yield module
    del sys.modules["pbs"]
    sys.modules.pop("jobsight_advice", None)
    sys.path[:] = [entry for entry in sys.path if entry != str(DEPLOY / "pbs")]


@pytest.fixture
def queue(pbs: Any, submission: Submission, tmp_path: Path) -> Callable[..., tuple[Any, list[str], float]]:
    """Run the hook on a job; return the job, the log and the seconds."""

    def start(job: dict[str, Any] | None = None, **values: object) -> tuple[Any, list[str], float]:
        here = {
            "port": submission.port, "cluster": "alpha", "token_file": str(submission.token_file),
            "breaker_file": str(tmp_path / "breaker"), "LIBRARY": str(DEPLOY / "pbs"), **values,
        }  # fmt: skip
        script = tmp_path / "queuejob.py"
        script.write_text(with_settings((DEPLOY / "pbs" / "queuejob.py").read_text(), tmp_path / "submit.conf", **here))
        queued = pbs.Job(**({"resources": ASKED} | (job or {})))
        pbs.current, pbs.logged = pbs.Event(queued), []
        started = time.monotonic()
        with pytest.raises(SystemExit) as left:  # how `accept` ends a hook
            runpy.run_path(str(script), run_name="__main__")
        assert left.value.code == 0
        return queued, [message for _, message in pbs.logged], time.monotonic() - started

    return start


def requested(job: Any) -> dict[str, str]:
    return {name: str(value) for name, value in job.Resource_List.items()}


@pytest.mark.exhaustive
def test_a_job_gets_what_is_known_as_its_comment_and_keeps_its_request(queue: Any) -> None:
    job, logged, _ = queue(limit_s=5)
    assert job.comment == f"jobsight: {SAYS}"
    assert requested(job) == ASKED
    assert logged == [f"ada: {job.comment}"]


def test_memory_and_time_are_set_only_where_the_settings_say_so(queue: Any) -> None:
    jobs = {
        "large": ("cfd.sh", {"mem": "64gb", "ncpus": "4", "walltime": "24:00:00"}),
        "small": ("large.sh", {"mem": "24gb", "ncpus": "4", "walltime": "01:00:00"}),
        "missing": ("cfd.sh", {"ncpus": "4"}),
        "select": ("cfd.sh", ASKED),
    }
    found = {}
    for mode in ("no", "missing", "lower", "always"):
        for name, (script, resources) in jobs.items():
            job, _, _ = queue({"Job_Name": script, "resources": resources}, limit_s=5, **setting(mode, mode))
            after = requested(job)
            found[mode, name] = {key for key in ("mem", "walltime", "select") if after.get(key) != resources.get(key)}
            assert ("Set: " in job.comment) == bool(found[mode, name])
            if name == "small" and found[mode, name]:
                assert (after["mem"], after["walltime"]) == (f"{36 * 1024}mb", "01:30:00")
            elif "mem" in found[mode, name]:
                assert 2150 <= int(after["mem"].removesuffix("mb")) <= 6000
            if "select" in found[mode, name]:
                memory = re.fullmatch("2:ncpus=2:mem=([0-9]+)mb", after["select"])
                assert memory is not None
                assert 1075 <= int(memory[1]) <= 3000
    both = {"mem", "walltime"}
    assert found == {
        ("no", "large"): set(), ("no", "small"): set(), ("no", "missing"): set(), ("no", "select"): set(),
        ("missing", "large"): set(), ("missing", "small"): set(), ("missing", "missing"): both,
        ("missing", "select"): set(),
        ("lower", "large"): {"mem"}, ("lower", "small"): set(), ("lower", "missing"): both,
        ("lower", "select"): {"select"},
        ("always", "large"): {"mem"}, ("always", "small"): both, ("always", "missing"): both,
        ("always", "select"): {"select"},
    }, "no time limit is lowered"  # fmt: skip


def test_chunks_of_two_kinds_and_memory_per_processor(queue: Any) -> None:
    two = {"select": "1:ncpus=3:mem=48gb+1:ncpus=1:mem=16gb", "walltime": "24:00:00"}
    job, _, _ = queue({"resources": two}, limit_s=5, **setting("always", "no"))
    assert requested(job) == two
    job, _, _ = queue({"resources": {"ncpus": "4", "pmem": "16gb"}}, limit_s=5, **setting("always", "no"))
    assert 537 <= int(requested(job)["pmem"].removesuffix("mb")) <= 1500


def test_nothing_is_set_before_enough_such_jobs_have_been_measured(queue: Any) -> None:
    job, _, _ = queue(limit_s=5, such_jobs=15, **setting("always", "always"))
    assert requested(job) == ASKED


def test_the_server_learns_whether_memory_will_be_set(queue: Any) -> None:
    asked: list[Any] = []
    with serving(answering({"text": "x", "such_jobs": 0, "pbs": {}}, asked=asked)) as port:
        for mode in ("no", "missing", "lower", "always"):
            queue(port=port, limit_s=5, **setting(mode, "no"))
    assert [question["sets_memory"] for question in asked] == [False, False, True, True]


@pytest.mark.parametrize("name", ["closed", "hung", "drip", "huge"])
def test_a_server_that_does_not_answer_costs_a_tenth_of_a_second_and_then_nothing(queue: Any, name: str) -> None:
    def five(port: int) -> list[tuple[Any, list[str], float]]:
        return [queue(port=port) for _ in range(5)]

    if name == "closed":
        found = five(closed_port())
    else:
        with serving({"hung": hang, "drip": drip, "huge": huge}[name]) as port:
            found = five(port)
    assert all((requested(job), job.changed) == (ASKED, []) for job, _, _ in found)
    assert min(seconds for _, _, seconds in found[:3]) < 0.1 + slack_s()
    why = {"closed": "Connection refused", "huge": "an answer of more than|no answer|reset"}.get(
        name, "no answer within 100 ms"
    )
    assert all(re.search(why, logged[0]) for _, logged, _ in found[:3])
    assert ["not asked: 3 questions in a row failed" in logged[0] for _, logged, _ in found] == [False] * 3 + [True] * 2


def test_a_queue_has_settings_of_its_own(queue: Any) -> None:
    own = {"memory.batch": "always", "time": "always", "time.batch": "no"}
    job, _, _ = queue({"queue": "batch"}, limit_s=5, **own)
    assert [name for name in ASKED if requested(job)[name] != ASKED[name]] == ["select"]
    asked = {"mem": "24gb", "ncpus": "4", "walltime": "01:00:00"}
    for name, changed in (("batch", ["mem"]), ("other", ["walltime"])):
        job, _, _ = queue({"queue": name, "Job_Name": "large.sh", "resources": asked}, limit_s=5, **own)
        assert [name for name in asked if requested(job)[name] != asked[name]] == changed


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_changes_nothing(queue: Any, name: str) -> None:
    with serving(GARBAGE[name]) as port:
        job, logged, seconds = queue(port=port, limit_s=5, **setting("always", "always"))
    assert (requested(job), job.changed, len(logged)) == (ASKED, [], 1)
    assert logged[0].startswith("jobsight: no advice: ")
    assert seconds < 5  # the limit, although servers hold the connection open


@pytest.mark.parametrize("value", ["0mb", "-1mb", "9" * 20 + "mb", "1mb:host=n1", 7, None, [], {"a": 1}])
def test_an_answer_with_a_strange_amount_sets_no_memory(queue: Any, value: Any) -> None:
    words = {"mem": value, "select": value, "walltime": "00:05:00"}
    body = {"text": "x\n\x1b[31m" + "y" * 5000, "such_jobs": 99, "pbs": words}
    with serving(with_body(json.dumps(body).encode())) as port:
        job, _, _ = queue(port=port, limit_s=5, **setting("always", "always"))
    assert requested(job) == {**ASKED, "walltime": "00:05:00"}
    assert job.comment.isprintable()
    assert len(job.comment) < 500


def test_what_is_wrong_with_the_installation_is_logged_and_rejects_nothing(queue: Any, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    for values, why in (
        ({"token_file": "/nowhere"}, "cannot read the token"),
        ({"token_file": str(wrong)}, "answered 401: this token is unknown or revoked"),
        ({"cluster": "beta"}, "answered 404: cluster = 'beta': unknown cluster; known: alpha"),
        ({"address": "localhost"}, "give an IP address"),
        ({"port": "many"}, "TypeError"),
        ({"memory": "allways"}, "submit.conf: wrong line: memory = allways"),
        ({"such_jobs": "-1"}, "submit.conf: wrong line: such_jobs = -1"),
        ({"time.batch": "5"}, "submit.conf: wrong line: time.batch = 5"),
        ({"breaker": "/etc/passwd"}, "submit.conf: wrong line: breaker = /etc/passwd"),
    ):
        job, logged, _ = queue(limit_s=5, **values)
        assert (requested(job), why in logged[0]) == (ASKED, True), why
    job, logged, _ = queue({"queue": None, "Job_Name": None}, limit_s=5)
    assert job.changed == ["comment"]


def test_without_its_library_jobs_are_accepted(queue: Any, tmp_path: Path) -> None:
    job, logged, _ = queue(LIBRARY=str(tmp_path / "missing"))
    assert (job.changed, "ModuleNotFoundError" in logged[0]) == ([], True)


@pytest.mark.parametrize(
    ("fields", "keeper"),
    [
        ({"Variable_List": "PBS_O_HOST=h,JOBSIGHT=jobsight:keep,A=b"}, "jobsight:keep"),
        ({"comment": "jobsight:input_bytes=3e9,keep"}, "jobsight:keep"),
        ({"Job_Name": "nf-CFD_s1"}, "Nextflow"),
        ({"Output_Path": "h:/work/ab/.command.log"}, "Nextflow"),
        ({"Job_Name": "snakejob.cfd.7.sh"}, "Snakemake"),
        ({"comment": "jobsight:keepsake=1"}, None),
    ],
)
def test_jobs_of_engines_and_those_to_keep_are_never_changed(
    queue: Any, fields: dict[str, str], keeper: str | None
) -> None:
    job, _, _ = queue(fields, limit_s=5, such_jobs=1, **setting("always", "always"))
    assert (requested(job) == ASKED) == (keeper is not None)
    assert (f" Not changed: {keeper}" in job.comment) == (keeper is not None)
    kept = [word for word in job.comment.replace(";", " ").split() if word.startswith("jobsight:") and "keep" in word]
    assert bool(kept) == ("jobsight:" in str(fields)), "the log has what the user wrote"


def test_a_busy_server_is_asked_again_soon_and_the_log_says_when_it_answers(
    queue: Any, submission: Submission, tmp_path: Path
) -> None:
    def later(seconds: int) -> None:
        """Let the breaker's times pass."""
        failed, *times = map(int, (tmp_path / "breaker").read_text().split())
        (tmp_path / "breaker").write_text(" ".join(map(str, (failed, *(time - seconds for time in times)))))

    with busy(submission.port, refused=5) as port:
        for _ in range(3):
            assert queue(port=port, limit_s=5)[0].changed == []
        pauses = []
        for _ in range(3):
            *_, until = map(int, (tmp_path / "breaker").read_text().split())
            pauses.append(until - int(time.time()))
            assert "not asked" in queue(port=port, limit_s=5)[1][0]
            later(until - int(time.time()) + 1)
            job, logged, _ = queue(port=port, limit_s=5)
        later(0)
    assert pauses[0] < pauses[1] < pauses[2] < 20, "as long as there has been no answer"
    assert job.changed == ["comment"]
    assert re.search("jobsight: advice is on again, after [0-9]+ s without an answer", logged[0])
    assert "advice is on again" not in "".join(queue(port=submission.port, limit_s=5)[1])


@pytest.fixture
def qsub(submission: Submission, tmp_path: Path) -> Callable[..., tuple[bytes, str, float]]:
    """Filter a script like qsub; return the submitted script, the user's output and the seconds."""

    def start(script: bytes, *arguments: str, **values: object) -> tuple[bytes, str, float]:
        here = {
            "port": submission.port, "cluster": "alpha", "token_file": str(submission.token_file),
            "LIBRARY": str(DEPLOY / "pbs"), **values,
        }  # fmt: skip
        text = with_settings((DEPLOY / "torque" / "submit-filter").read_text(), tmp_path / "submit.conf", **here)
        # The interpreter of this test, and user ada's name for the one who runs it.
        name = pwd.getpwuid(os.getuid()).pw_name
        text = text.replace(
            "pwd.getpwuid(os.getuid()).pw_name", f"{{{name!r}: 'ada'}}[pwd.getpwuid(os.getuid()).pw_name]"
        )
        (tmp_path / "filter.py").write_text(text)
        environment = {"XDG_RUNTIME_DIR": str(tmp_path), "JOBSIGHT_DEBUG": "1"}
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-I", tmp_path / "filter.py", *arguments],
            input=script,
            capture_output=True,
            env=environment,
        )
        assert done.returncode == 0
        return done.stdout, done.stderr.decode(), time.monotonic() - started

    return start


SCRIPT = b"""#!/bin/sh
#PBS -N cfd.sh
#PBS -q batch@head -l nodes=2:ppn=2,mem=64gb
#PBS -l walltime=24:00:00
# caf\xe9
exec ./cfd   # not one: #PBS -l mem=1gb
#PBS -l mem=2gb
"""


def test_the_filter_shows_the_user_what_similar_jobs_used_and_passes_the_script_on(qsub: Any) -> None:
    assert qsub(SCRIPT, limit_s=5)[0] == SCRIPT
    assert SAYS in qsub(SCRIPT, limit_s=5)[1]
    assert qsub(SCRIPT, limit_s=5, message="no")[:2] == (SCRIPT, "")
    arguments = [
        "-r",
        "n",
        "-F",
        "-N other",
        "-N",
        "cfd.sh",
        "-V",
        "-lnodes=2:ppn=2,mem=64gb",
        "-l",
        "walltime=86400",
        "-q",
        "batch",
        "job.sh",
    ]
    assert SAYS in qsub(b"./cfd\n", *arguments, limit_s=5)[1]
    out, said, _ = qsub(b"./cfd\n", "-l", "nodes=1:ppn=4", "/home/ada/other.sh", limit_s=5, message="always")
    assert (out, "treat this as an estimate from other jobs" in said) == (b"./cfd\n", True)
    out, said, _ = qsub(b"", "-l", "nodes=1:ppn=4", "/home/ada/cfd.sh", limit_s=5, message="always")
    assert (out, "Your last 14 similar jobs" in said) == (b"", True)


def test_the_filter_changes_directives_only_where_the_settings_say_so(qsub: Any) -> None:
    missing = b"#!/bin/sh\n#PBS -N cfd.sh -q batch\n#PBS -l nodes=2:ppn=2\n./cfd\n"
    assert qsub(missing, limit_s=5, **setting("no", "no"))[0] == missing
    assert qsub(SCRIPT, limit_s=5, **setting("missing", "missing"))[0] == SCRIPT
    changed = qsub(SCRIPT, limit_s=5, **setting("lower", "lower"))[0]
    pattern = SCRIPT.replace(b"mem=64gb", b"mem=(\\d+)mb")
    found = re.fullmatch(pattern.replace(b"./cfd   #", b"[.]/cfd   #"), changed)
    assert found is not None, changed
    assert 2150 <= int(found[1]) <= 6000
    large = SCRIPT.replace(b"cfd.sh", b"large.sh").replace(b"64gb", b"24gb").replace(b"24:00:00", b"01:00:00")
    assert qsub(large, limit_s=5, **setting("lower", "lower"))[0] == large
    raised = large.replace(b"24gb", b"36864mb").replace(b"01:00:00", b"01:30:00")
    assert qsub(large, limit_s=5, **setting("always", "always"))[0] == raised
    added = qsub(missing, limit_s=5, **setting("missing", "missing"))[0]
    head, time_line, memory_line, *rest = added.splitlines(keepends=True)
    assert (head, b"".join(rest)) == (b"#!/bin/sh\n", missing.partition(b"\n")[2])
    assert re.fullmatch(rb"#PBS -l walltime=\d\d:\d\d:00\n", time_line)
    assert re.fullmatch(rb"#PBS -l mem=\d+mb\n", memory_line)


def test_the_filter_leaves_what_the_command_line_asks_for_and_doubtful_lines(qsub: Any) -> None:
    out, _, _ = qsub(SCRIPT, "-l", "mem=60gb,walltime=12:00:00", limit_s=5, **setting("always", "always"))
    assert out == SCRIPT
    doubtful = b"#PBS -N cfd.sh -v mem=7 -l nodes=1:ppn=4,mem=64gb\n./cfd\n"
    assert qsub(doubtful, limit_s=5, **setting("always", "no"))[0] == doubtful
    variable = b"#PBS -N cfd.sh -l nodes=1:ppn=4\n#PBS -v mem=7\n./cfd\n"
    out = qsub(variable, limit_s=5, **setting("always", "no"))[0]
    assert re.fullmatch(rb"#PBS -l mem=\d+mb\n" + re.escape(variable), out)


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        (b"#PBS -W x=jobsight:keep\n", []),
        (b"#PBS -W depend=afterok:1,x=jobsight:input_bytes=3e9,keep\n", []),
        (b"", ["-v", "A=b,JOBSIGHT=jobsight:keep"]),
        (b"#PBS -o h:/work/ab/.command.log\n", []),
        (b"# NEXTFLOW TASK: ALIGN\n", []),
        (b"", ["-N", "nf-CFD_s1"]),
        (b'# properties = {"type": "single", "rule": "cfd"}\n', []),
    ],
)
def test_the_filter_never_changes_jobs_of_engines_and_those_to_keep(
    qsub: Any, lines: bytes, arguments: list[str]
) -> None:
    chosen = {"limit_s": 5, "such_jobs": 1, **setting("always", "always")}
    script = SCRIPT.replace(b"#!/bin/sh\n", b"#!/bin/sh\n" + lines)
    assert qsub(script, *arguments, **chosen)[0] == script
    other = SCRIPT.replace(b"#!/bin/sh\n", b"#!/bin/sh\n#PBS -W x=jobsight:keepsake=1 -o h:/log\n")
    assert qsub(other, **chosen)[0] != other


@pytest.mark.parametrize("name", ["closed", "hung", "drip", "huge", "noise", "deep", "cut"])
def test_the_filter_passes_the_script_on_whatever_the_server_does(qsub: Any, name: str) -> None:
    if name == "closed":
        found = [qsub(SCRIPT, port=closed_port(), **setting("always", "always")) for _ in range(4)]
        assert ["not asked" in said for _, said, _ in found] == [False, False, False, True]
    else:
        with serving({"hung": hang, "drip": drip, "huge": huge, **GARBAGE}[name]) as port:
            found = [qsub(SCRIPT, port=port, **setting("always", "always"))]
    assert all(out == SCRIPT for out, _, _ in found)
    assert all(said.startswith("jobsight: NoAdviceError: ") for _, said, _ in found)
    assert found[0][2] < 1 + 4 * slack_s()  # with the start of an interpreter


@given(
    script=st.binary(max_size=300), options=st.lists(st.sampled_from(["-l", "-lmem=", "-N", "x", "-", "--", "é", ""]))
)
@settings(max_examples=60)
def test_any_script_and_any_arguments_are_read(script: bytes, options: list[str]) -> None:
    lines = script.decode("latin-1").splitlines(keepends=True)
    assert "".join(lines).encode("latin-1") == script
    by_line = FILTER["directives"](lines)
    question, _ = FILTER["question_of"](options, by_line)
    json.dumps(question)
    changed = "".join(FILTER["changed"](lines, by_line, "mem", "5mb")).encode("latin-1")
    assert changed == script or b"mem=5mb" in changed
