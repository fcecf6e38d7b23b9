"""The rule for Galaxy's TPV, run as TPV runs it, with a real server. TPV needs a Galaxy: its entities are stand-ins."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.deploy.misbehaving import closed_port
from tests.deploy.workflow_site import Workflow

WORKFLOWS = Path(__file__).parents[2] / "deploy" / "workflows"
RULES = yaml.safe_load((WORKFLOWS / "galaxy" / "tpv.yml").read_text())["tools"]["default"]["rules"]
OWN_GIB = 7.45  # as the site's jobs had: 8,000 MB


@pytest.fixture
def memory(workflow: Workflow, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The memory that the rule sets for a tool, after so many resubmissions."""
    for folder in ("galaxy", "snakemake"):
        monkeypatch.syspath_prepend(str(WORKFLOWS / folder))

    def of_tool(tool: str, resubmitted: int = 0, **environment: str) -> float:
        for name, value in workflow.environment(**environment).items():
            monkeypatch.setenv(name, value)
        for name in ("jobsight_resources", "jobsight_tpv"):
            sys.modules.pop(name, None)
        own = SimpleNamespace(cores=2, mem=OWN_GIB)
        entity = SimpleNamespace(mem="cores * 3.725", evaluate_resources=lambda context: own)
        states = [SimpleNamespace(state=state) for state in ("new", *["resubmitted"] * resubmitted)]
        job = SimpleNamespace(state_history=states)
        context = {"entity": entity, "job": job, "tool": SimpleNamespace(old_id=tool), "input_size": 0.1}
        (rule,) = RULES
        assert rule["if"] is True
        exec(compile(rule["execute"], "tpv.yml", "exec"), context)
        found: float = entity.mem
        return found

    return of_tool


def test_a_known_tool_gets_the_amount_of_its_attempt(memory: Any) -> None:
    """630 MiB are advised for 600 to 613 used, then the site's own amount, then twice that."""
    first, second, third = (memory("align", resubmitted) for resubmitted in range(3))
    assert 613 / 1024 < first < 0.7
    assert second == pytest.approx(OWN_GIB, abs=0.01)
    assert third == pytest.approx(2 * OWN_GIB, abs=0.02)


def test_an_unknown_tool_and_a_server_that_is_away_leave_tpv_s_amount(memory: Any) -> None:
    assert memory("stranger") == pytest.approx(OWN_GIB, abs=0.001)
    away = f"http://127.0.0.1:{closed_port()}"
    assert memory("align", JOBSIGHT_SERVER=away) == pytest.approx(OWN_GIB, abs=0.001)
