"""The resource functions for Snakemake: with a real Snakemake and a real server, and with servers that misbehave."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.deploy.misbehaving import GARBAGE, busy, closed_port, drip, hang, huge, says, serving, slack_s
from tests.deploy.workflow_site import Workflow, answering, over_tls

from jobsight_server.cli import main

FILE = Path(__file__).parents[2] / "deploy" / "workflows" / "snakemake" / "jobsight_resources.py"
SNAKEMAKE = os.environ.get("JOBSIGHT_SNAKEMAKE") or shutil.which("snakemake")
SNAKEFILE = """
from jobsight_resources import jobsight

rule all:
    input: "done.txt"

rule fetch:
    output: "a.fq"
    shell: "head -c 110100480 /dev/zero > {output}"

rule align:
    input: "a.fq"
    output: "a.bam"
    threads: 2
    resources: **jobsight(mem_mb=lambda wc, attempt: 8000 * attempt, runtime=240)
    shell: "echo {resources.mem_mb} {resources.runtime} >> got.txt; [ $(wc -l < got.txt) = 2 ] && touch {output}"

rule stranger:
    input: "a.bam"
    output: "done.txt"
    resources: **jobsight(mem_mib=512, runtime=7)
    benchmark: "benchmarks/stranger.tsv"
    shell: "echo {resources.mem_mib} {resources.runtime} > stranger.txt; touch {output}"
"""


@pytest.fixture
def ask(workflow: Workflow, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any, float]]:
    """Ask a fresh copy of the module for memory and minutes of `align`, for which the workflow requests 8000 MB and 240
    minutes; return them with the seconds."""

    def resources(attempt: int = 1, size: int = 105 * 2**20, **environment: str) -> tuple[Any, Any, float]:
        for name, value in workflow.environment(**environment).items():
            monkeypatch.setenv(name, value)
        module = fresh_module()
        started = time.monotonic()
        return *of_align(module, attempt, size), time.monotonic() - started

    return resources


def fresh_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("jobsight_resources", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_align(module: ModuleType, attempt: int = 1, size: int = 0) -> tuple[Any, Any]:
    functions = module.jobsight(mem_mb=lambda wc, attempt: 8000 * attempt, runtime=240)
    inputs = SimpleNamespace(size=size)
    memory, minutes = (functions[name](None, inputs, 2, attempt, "align") for name in ("mem_mb", "runtime"))
    return memory, minutes


def recommended(memory: Any, minutes: Any) -> bool:
    """Enough for the 613 MiB that such tasks used, and well below what the workflow asks for; its time stays."""
    return 613 * 1.048576 <= memory <= 2000 and minutes == 240


def more(second: Iterable[int], first: Iterable[int]) -> bool:
    """A second attempt gets more of both than the first, and no more memory than the workflow's own second attempt."""
    (memory, minutes), (memory_before, minutes_before) = second, first
    return memory_before < memory <= 16000 and minutes > minutes_before


@pytest.mark.parametrize(
    ("attempts", "found"),
    [([1e9, 3e9], {1: 1000, 2: 3000, 3: 24000}), (None, {1: 2000, 2: 16000}), ([], {1: 2000}), ("12", {1: 8000})],
)
def test_each_attempt_has_its_own_amount(ask: Any, attempts: Any, found: dict[int, int]) -> None:
    forecast = {"metric": "memory", "reserve": 2e9, "attempts": attempts}
    with serving(answering({"such_jobs": 5, "forecasts": [forecast]})) as port:
        for attempt, memory in found.items():
            assert ask(attempt, JOBSIGHT_SERVER=f"http://127.0.0.1:{port}")[0] == memory


def test_the_question_has_rule_processors_requests_and_size_and_is_asked_once(ask: Any) -> None:
    asked: list[Any] = []
    with serving(answering({"forecasts": []}, asked=asked)) as port:
        assert ask(JOBSIGHT_SERVER=f"http://127.0.0.1:{port}")[:2] == (8000, 240)
        assert ask(2, JOBSIGHT_SERVER=f"http://127.0.0.1:{port}")[:2] == (16000, 240)
    assert asked == 2 * [
        {
            "cluster": "alpha", "user": "ada", "application": "align", "processors": 2, "memory_bytes": 8_000_000_000,
            "walltime_s": 14400, "facts": {"input_bytes": 105 * 2**20},
        }
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["closed", "hung", "drip", "huge", "tls", "unknown host", "no token", "refused"])
def test_a_server_that_does_not_answer_costs_a_fifth_of_a_second_and_then_nothing(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, name: str
) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("no-token-of-this-server")
    changes = {
        "closed": {"JOBSIGHT_SERVER": f"http://127.0.0.1:{closed_port()}"},
        "tls": {"JOBSIGHT_SERVER": workflow.site.url.replace("http://", "https://")},
        "unknown host": {"JOBSIGHT_SERVER": "http://jobsight.invalid:8470"},
        "no token": {"JOBSIGHT_TOKEN_FILE": str(tmp_path / "absent")},
        "refused": {"JOBSIGHT_TOKEN_FILE": str(wrong)},
    }.get(name, {})
    with serving({"hung": hang, "drip": drip, "huge": huge}.get(name, hang)) as port:
        environment = workflow.environment(**{"JOBSIGHT_SERVER": f"http://127.0.0.1:{port}", **changes})
        del environment["JOBSIGHT_LIMIT_MS"]
        if name == "no token":
            environment["JOBSIGHT_SERVER"] = workflow.site.url
        if name == "refused":
            environment["JOBSIGHT_SERVER"] = workflow.site.url
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        module, took = fresh_module(), []
        with caplog.at_level(logging.WARNING):
            for _ in range(4):  # the third question is the last
                started = time.monotonic()
                assert of_align(module) == (8000, 240)
                took.append(time.monotonic() - started)
    assert min(took[:1]) < 2 * (0.2 + slack_s())  # memory and time
    assert min(took[2:]) < 0.2
    assert [record.getMessage().startswith("jobsight: ") for record in caplog.records] == [True]


def test_a_busy_server_is_asked_again_soon_and_a_line_says_when_it_answers(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with busy(int(workflow.site.url.rpartition(":")[2]), refused=3) as port, caplog.at_level(logging.WARNING):
        environment = {"JOBSIGHT_SERVER": f"http://127.0.0.1:{port}", "JOBSIGHT_LIMIT_MS": "5000"}
        for variable, value in workflow.environment(**environment).items():
            monkeypatch.setenv(variable, value)
        module = fresh_module()
        asked = time.monotonic()
        assert [of_align(module) for _ in range(2)] == [(8000, 240)] * 2
        took = time.monotonic() - asked
        assert 0 < module._state["pause_until"] - asked <= took + max(2, took), "as long as there was no answer"
        module._state["pause_until"] = 0.0
        assert recommended(*of_align(module))
        assert recommended(*of_align(module))
    paused, again = (record.getMessage() for record in caplog.records)
    assert "own resources are used for" in paused
    assert again == "jobsight: the server answers again; its resources are used"


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_changes_nothing(ask: Any, name: str) -> None:
    with serving(GARBAGE[name]) as port:
        memory, minutes, seconds = ask(JOBSIGHT_SERVER=f"http://127.0.0.1:{port}", JOBSIGHT_LIMIT_MS="200")
    assert (memory, minutes) == (8000, 240)
    assert seconds < 2 * (0.2 + slack_s())


@pytest.mark.parametrize("such_jobs", [4, None, "9", True])
def test_nothing_is_given_before_five_such_jobs_have_been_measured(ask: Any, such_jobs: Any) -> None:
    body = {"such_jobs": such_jobs, "forecasts": [{"metric": "memory", "reserve": 1e9}]}
    with serving(answering(body)) as port:
        assert ask(JOBSIGHT_SERVER=f"http://127.0.0.1:{port}")[0] == 8000


@pytest.mark.parametrize("value", [0, -1, 1e30, "1", True, None, [], {"a": 1}])
def test_a_strange_amount_changes_nothing(ask: Any, value: Any) -> None:
    body = {"such_jobs": 9, "forecasts": [None, {"metric": "memory", "reserve": value}]}
    with serving(answering(body)) as port:
        assert ask(JOBSIGHT_SERVER=f"http://127.0.0.1:{port}")[:2] == (8000, 240)


def test_over_tls_only_a_trusted_certificate_is_answered(ask: Any, tmp_path: Path) -> None:
    body = {"such_jobs": 9, "forecasts": [{"metric": "memory", "reserve": 1e9}]}
    serve, certificate = over_tls(answering(body), tmp_path)
    with serving(serve) as port:
        server = {"JOBSIGHT_SERVER": f"https://127.0.0.1:{port}"}
        assert ask(**server)[0] == 8000
        assert ask(**server, SSL_CERT_FILE=str(certificate))[0] == 1000


def test_a_token_is_not_sent_elsewhere(ask: Any) -> None:
    visited = []
    with serving(lambda connection: visited.append(connection.recv(1))) as other:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\n\r\n".encode()
        with serving(says(moved)) as port:
            assert ask(JOBSIGHT_SERVER=f"http://127.0.0.1:{port}", http_proxy=f"http://127.0.0.1:{other}")[0] == 8000
    assert visited == []


def run_snakemake(tmp_path: Path, environment: dict[str, str]) -> None:
    """Run the rules without their inputs, which shows what they would do, and in earnest."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    shutil.copy(FILE, tmp_path)
    command = [str(SNAKEMAKE), "--cores", "2", "--retries", "1", "--directory", str(tmp_path)]
    dry = subprocess.run(
        [*command, "--dry-run", "--snakefile", str(tmp_path / "Snakefile")],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert dry.returncode == 0, dry.stderr
    done = subprocess.run(
        [*command, "--snakefile", str(tmp_path / "Snakefile")],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
@pytest.mark.skipif(SNAKEMAKE is None, reason="no snakemake (set JOBSIGHT_SNAKEMAKE)")
def test_a_real_snakemake_asks_for_each_attempt_when_the_inputs_are_there(
    workflow: Workflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_snakemake(tmp_path, workflow.environment())
    first, second = ((tmp_path / "got.txt").read_text().splitlines()[number].split() for number in (0, 1))
    assert recommended(*map(int, first))
    assert more(map(int, second), map(int, first))
    assert (tmp_path / "stranger.txt").read_text().split() == ["512", "7"]
    database = f"sqlite:///{tmp_path / 'jobsight.db'}"
    assert (
        main(["import", str(tmp_path / "benchmarks" / "stranger.tsv"), "--cluster", "c", "--database", database]) == 0
    )
    assert "stranger.tsv: snakemake (guessed)" in (said := capsys.readouterr().out)
    assert "1 new run, 1 profiled" in said
