"""The example settings say what the programs say: every setting, with its default, and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jobsight_agent.config import OPTIONS, load_config
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.settings.load import SETTINGS, load_settings, settings_in
from jobsight_server.systems.listed import all_sections

DEPLOY = Path(__file__).parents[2] / "deploy"
COMMENTED = re.compile(r"^# (\w+) = (.+)$", re.MULTILINE)


def commented(text: str) -> dict[str, Any]:
    """Settings that are commented out, before any table."""
    return tomllib.loads("\n".join(f"{name} = {value}" for name, value in COMMENTED.findall(text)))


@pytest.mark.parametrize(("file", "declared"), [("jobsight.toml", SETTINGS), ("agent.toml", OPTIONS)])
def test_the_example_has_every_setting_with_its_default_and_help(file: str, declared: Any) -> None:
    text = re.split(r"^# \[", (DEPLOY / file).read_text(), flags=re.MULTILINE)[0]
    found = commented(text)
    expected = {one.name: list(one.default) if isinstance(one.default, tuple) else one.default for one in declared}
    assert list(found) == list(expected)
    assert found == expected
    assert {name: type(value) for name, value in found.items()} == {n: type(v) for n, v in expected.items()}
    for one in declared:
        assert f"# {one.help[0].upper()}{one.help[1:]}.\n# {one.name} = " in text


def test_the_example_has_the_tables_of_placing_systems() -> None:
    text = (DEPLOY / "jobsight.toml").read_text()
    for kind in all_sections():
        declared = settings_in(kind, kind.SECTION)
        table = text.partition(f"# [{kind.SECTION}]\n")[2].partition("# [")[0]
        assert commented(table) == {
            one.field: list(one.default) if isinstance(one.default, tuple) else one.default for one in declared
        }
        assert all(f"# {one.help[0].upper()}{one.help[1:]}.\n# {one.field} = " in table for one in declared)


def test_server_reads_the_tables_that_the_example_shows(tmp_path: Path) -> None:
    shown = (DEPLOY / "jobsight.toml").read_text().partition("# [[accounting]]\n")[2]
    tables = [line.removeprefix("# ") for line in shown.splitlines() if re.match(r"# (\w+ = |\[)", line)]
    file = tmp_path / "jobsight.toml"
    file.write_text("\n".join(["[[accounting]]", *tables]))
    settings, directory = load_settings(file), Path("/var/spool/torque/server_priv/accounting")
    assert settings.accounting == (AccountingSource("default", directory, format="torque"),)
    (source,) = settings.measurements
    assert (source.cluster, source.presets) == ("default", ("cgroup_exporter", "node_exporter"))
    assert (settings.access.login_header, settings.access.admins) == ("X-Remote-User", ("root",))


def test_agent_reads_its_example() -> None:
    config = load_config(DEPLOY / "agent.toml", {})
    assert (config.server, config.cluster) == ("https://jobsight.example.org", "default")
    assert config.token_file == "/etc/jobsight/agent-token"
    assert config.spool == "/var/spool/jobsight"
