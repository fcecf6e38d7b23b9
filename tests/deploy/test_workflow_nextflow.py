"""The closure for Nextflow, evaluated by Groovy as Nextflow does: with a real server, and with misbehaving ones.

Nextflow itself is not here: what it makes of the file but for the closure is not tested.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.misbehaving import GARBAGE, closed_port, drip, hang, huge, serving, slack_s
from tests.deploy.workflow_site import Workflow, answering, over_tls

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy" / "workflows" / "nextflow" / "jobsight.config"
# A class path with Groovy and its module for JSON; Debian's package `groovy` puts them here.
GROOVY = os.environ.get("JOBSIGHT_GROOVY") or "/usr/share/java/groovy-all.jar"
MIB = 2**20
OWN = {"memory": 8_000_000_000, "time": 240 * 60_000}
KEPT = [f"own {OWN['memory']}", f"own {OWN['time']}"]
STATE = ["jobsight.failed", "jobsight.pause_until"]

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or not all(Path(part).exists() for part in GROOVY.split(":")),
    reason="no Groovy (set JOBSIGHT_GROOVY to its class path)",
)


@pytest.fixture
def evaluate(workflow: Workflow, tmp_path: Path) -> Callable[..., tuple[list[list[str]], list[float], str]]:
    """Memory and time of tasks one after the other, the milliseconds that each took, and what was said."""
    file = tmp_path / "s1.fq"
    file.write_bytes(bytes(1000))

    def tasks(*changes: dict[str, Any], **environment: str) -> tuple[list[list[str]], list[float], str]:
        task = {"process": "align", "cpus": 2, "attempt": 1, "files": [str(file), str(file)], "own": OWN}
        done = subprocess.run(
            [
                "java", "-Duser.name=ada", "-cp", GROOVY, "groovy.ui.GroovyMain",
                str(Path(__file__).parent / "nextflow" / "task.groovy"), str(CONFIG),
            ],
            input="".join(json.dumps(task | change) + "\n" for change in changes),
            capture_output=True, text=True, env=workflow.environment(**environment), timeout=120, check=True,
        )  # fmt: skip
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [answer["size"] for answer in answers] == [1000 * len((task | change)["files"]) for change in changes]
        found = [[answer[name][0] for name in ("memory", "time")] for answer in answers]
        return found, [answer[name][1] for answer in answers for name in ("memory", "time")], done.stderr

    return tasks


def at(port: int) -> dict[str, str]:
    return {"JOBSIGHT_SERVER": f"http://127.0.0.1:{port}"}


@pytest.mark.exhaustive
def test_a_known_process_gets_what_is_recommended_and_a_later_attempt_more(evaluate: Any) -> None:
    found, _, said = evaluate({}, {"attempt": 2}, {"process": "NFCORE:ALIGN"}, {"own": None, "files": [], "attempt": 2})
    assert said == ""
    first, second, unknown, without_own = found
    (memory, more), (minutes, longer) = (
        [int(attempt[column].split()[0]) for attempt in (first, second)] for column in (0, 1)
    )
    assert 300 <= memory <= 2000, "half of what tasks with larger inputs used, at least"
    assert memory < more
    assert minutes == 240 < longer, "the workflow's time stays"
    assert unknown == KEPT
    assert memory < int(without_own[0].split()[0]) <= 4000
    assert 20 < int(without_own[1].split()[0]) <= 120


@pytest.mark.exhaustive
def test_each_attempt_has_its_own_amount(evaluate: Any) -> None:
    bodies = []
    for attempts in ([1000 * MIB, 2.5 * MIB], None, [], "12", [1], [1, 2, 3 * MIB]):
        forecasts = [{"metric": name, "reserve": 2000 * MIB, "attempts": attempts} for name in ("memory", "runtime")]
        bodies += [{"such_jobs": 5, "forecasts": forecasts}] * 2
    changes = [{"attempt": attempt, "forget": STATE} for attempt in (2, 1, 1, 1, 2, 3)]
    with serving(answering(*bodies)) as port:
        found, _, _ = evaluate(*changes, **at(port))
    memory = [amounts[0] for amounts in found]
    assert memory == ["3 MB", "2000 MB", "2000 MB", KEPT[0], KEPT[0], "3 MB"]


@pytest.mark.exhaustive
def test_the_question_has_process_processors_request_and_size(evaluate: Any) -> None:
    asked: list[Any] = []
    with serving(answering({"such_jobs": 5, "forecasts": []}, asked=asked)) as port:
        evaluate({"process": "RNA:ALIGN"}, **at(port))
    about = {"cluster": "alpha", "user": "ada", "application": "RNA_ALIGN", "processors": 2}
    about["facts"] = {"input_bytes": 2000}
    assert asked == [about | {"memory_bytes": OWN["memory"]}, about | {"walltime_s": 14400}]


def test_a_value_by_attempt_is_asked_about_as_of_the_first(evaluate: Any) -> None:
    """Like Snakemake: the answer has the amounts of all attempts, such as twice the request after it."""
    asked: list[Any] = []
    attempts = {"memory": [OWN["memory"], 2 * OWN["memory"]], "runtime": None}
    forecasts = [{"metric": metric, "attempts": amounts} for metric, amounts in attempts.items()]
    with serving(answering({"such_jobs": 5, "forecasts": forecasts}, asked=asked)) as port:
        found, *_ = evaluate({"attempt": 2, "scaled": True}, **at(port))
    assert [asked[0]["memory_bytes"], asked[1]["walltime_s"]] == [OWN["memory"], OWN["time"] / 1000]
    assert found == [[f"{math.ceil(2 * OWN['memory'] / MIB)} MB", f"own {2 * OWN['time']}"]]


@pytest.mark.parametrize(
    "name",
    [
        *("closed", "hung", "refused"),
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("drip", "huge", "tls", "certificate", "unknown host", "no token")
        ),
    ],
)
def test_a_server_that_does_not_answer_costs_a_fifth_of_a_second_and_then_nothing(
    workflow: Workflow, evaluate: Any, tmp_path: Path, name: str
) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("no-token-of-this-server")
    serve = {"drip": drip, "huge": huge}.get(name, hang)
    if name == "certificate":
        serve, _ = over_tls(serve, tmp_path)
    with serving(serve) as port:
        changes = {
            "closed": at(closed_port()),
            "tls": {"JOBSIGHT_SERVER": workflow.site.url.replace("http://", "https://")},
            "certificate": {"JOBSIGHT_SERVER": f"https://127.0.0.1:{port}"},
            "unknown host": {"JOBSIGHT_SERVER": "http://jobsight.invalid:8470"},
            "no token": {"JOBSIGHT_TOKEN_FILE": str(tmp_path / "absent")},
            "refused": {"JOBSIGHT_TOKEN_FILE": str(wrong)},
        }.get(name, at(port))
        found, took, said = evaluate({}, {}, {}, **changes, JOBSIGHT_LIMIT_MS="200")
    assert found == [KEPT] * 3
    assert min(took[:3]) < 200 + 1000 * slack_s()
    assert min(took[3:]) < 100  # not asked; a busy machine may delay one
    assert said.startswith("jobsight: ")
    assert said.count("\n") == 1


@pytest.mark.exhaustive
def test_garbage_changes_nothing(evaluate: Any) -> None:
    left = [each for serve in GARBAGE.values() for each in (serve, serve)]
    with serving(lambda connection: left.pop(0)(connection) if left else None) as port:
        found, took, _ = evaluate(*[{"forget": STATE}] * len(GARBAGE), **at(port), JOBSIGHT_LIMIT_MS="200")
    assert found == [KEPT] * len(GARBAGE)
    assert sorted(took)[len(took) // 2] < 200 + 1000 * slack_s()


def test_the_file_keeps_to_what_nextflows_strict_parser_takes() -> None:
    """Assignments of closures; no imports, loops, declared types or calls of local closures without ``call``."""
    code = re.sub(r"//.*|'[^'\n]*'|\"[^\"\n]*\"", "", CONFIG.read_text()).strip()
    outside = re.sub(r"\{\n.*?\n\}", "", code, flags=re.DOTALL).split("\n")
    assert [line for line in outside if line] == ["process.ext.jobsight_size = ", "process.ext.jobsight = "]
    unknown = {"import", "for", "while", "switch", "final", "++", "--", "<<"}
    assert not set(re.findall(r"\w+|\+\+|--|<<", code)) & unknown
