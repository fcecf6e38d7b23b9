"""Settings: where a value comes from, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from jobsight_server.front.addresses import split_address
from jobsight_server.settings.declared import AccountingSource, Settings
from jobsight_server.settings.load import SETTINGS, SettingsError, load_settings, settings_in
from jobsight_server.settings.measurements import MeasurementSource
from jobsight_server.settings.tables import Access, AdjustLimits, Mail, WeeklyMail
from jobsight_server.systems.listed import all_sections
from jobsight_server.systems.matching.settings import MatchingSettings
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.ranking.settings import RankingSettings


def toml(directory: Path, text: str) -> Path:
    """A settings file of this text."""
    file = directory / "jobsight.toml"
    file.write_text(text)
    return file


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = toml(tmp_path, 'listen = "0.0.0.0:1"\nquery_workers = 3\nretention_days = 7\n')
    environment = {"JOBSIGHT_QUERY_WORKERS": "4", "JOBSIGHT_RETENTION_DAYS": "8", "PATH": "/bin"}
    settings = load_settings(file, environment, {"retention_days": "9", "coverage": None})
    assert (settings.listen, settings.query_workers, settings.retention_days) == (("0.0.0.0:1",), 4, 9.0)
    assert settings.coverage == 0.95


def test_accounting_directories_from_file_and_flag(tmp_path: Path) -> None:
    alpha = toml(tmp_path, '[[accounting]]\ncluster = "alpha"\ndirectory = "/var/a"\n')
    settings = load_settings(alpha, {}, {"accounting": ["beta=/var/b=c"]})
    assert settings.accounting == (
        AccountingSource("alpha", Path("/var/a")),
        AccountingSource("beta", Path("/var/b=c")),
    )


def test_several_texts_from_file_and_environment(tmp_path: Path) -> None:
    file = toml(tmp_path, 'clusters = ["alpha", "beta"]\n')
    assert load_settings(file, {}).clusters == ("alpha", "beta")
    assert load_settings(file, {"JOBSIGHT_CLUSTERS": "gamma delta"}).clusters == ("gamma", "delta")
    with pytest.raises(SettingsError, match=r"JOBSIGHT_CLUSTERS: clusters = .* has 1 to"):
        load_settings(None, {"JOBSIGHT_CLUSTERS": "a" * 300})


@pytest.mark.parametrize("text", ["true", '"True"', "1"])
def test_a_yes_or_no_from_file_and_environment(tmp_path: Path, text: str) -> None:
    file = toml(tmp_path, f"cookie_secure = {text}\n")
    settings = load_settings(file, {})
    assert settings.cookie_secure is True
    assert load_settings(file, {"JOBSIGHT_COOKIE_SECURE": "false"}).cookie_secure is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listne = 1", "unknown setting 'listne'"),
        ("query_workers = 0", "query_workers = 0: expected `int` >= 1"),
        ('query_workers = "many"', "query_workers = 'many': expected `int`, got `str`"),
        ('cookie_secure = "perhaps"', "cookie_secure = 'perhaps': expected `bool`, got `str`; choose from true, false"),
        ("retention_days = nan", "retention_days = nan: expected `float` >= 0.01"),
        ("retention_days = inf", "retention_days = inf: expected `float` <= 36500.0"),
        ("query_workers = 1000000", "query_workers = 1000000: expected `int` <= 256"),
        ("[matching]\nhold_s = inf", "matching_hold_s = inf: expected `float` <= "),
        ('[[adjust]]\ncluster = "a"\nraise_to = inf', "adjust: expected `float` <= 1000.0"),
        ("listen = ", "jobsight.toml: Invalid"),
        ("coverage = 1", "coverage = 1: expected `float` < 1.0"),
        ("clusters = [1]", r"clusters = \[1\]: expected `str`, got `int`"),
        ('[[accounting]]\ncluster = "a"', r"accounting: expected directory, file or sacct, one of them.*; write"),
        (
            '[[accounting]]\ncluster = "a"\ndirectory = "b"\nformat = "lfs"',
            r"invalid enum value 'lfs'.*directory, file or sacct, and format: torque, pbspro, ",
        ),
        ('[[accounting]]\ncluster = "a"\ndirectory = "b"\nfromat = "torque"', "unknown field `fromat`"),
        ('[[adjust]]\ncluster = "a"\nusers_share = 2.0', r"<= 1.0 .* write \[\[adjust\]\] tables"),
        ('[[measurements]]\ncluster = "a"\nurl = "http://p"', r"expected presets \(cgroup_exporter, .*\) or queries"),
        (
            '[[measurements]]\ncluster = "a"\nurl = "p:9090"\npresets = ["dcgm"]',
            r"measurements: expected an http:// or https:// url, got 'p:9090' .*; write \[\[measurements\]\] tables",
        ),
        (
            '[[measurements]]\ncluster = "a"\nurl = "http://me:secret@p"\npresets = ["dcgm"]',
            "expected a url of host, port and path, without a user; headers",
        ),
        (
            '[[measurements]]\ncluster = "a"\nurl = "http://p"\npresets = ["dcgm"]\nlabels = {"a-b" = "c"}',
            "'a-b'is not a label name",
        ),
        ("accounting = 1", r"accounting: expected `array`.*write \[\[accounting\]\] tables"),
        ("[matching]\nhold_s = 0", r"matching_hold_s = 0: expected `float` >= 1"),
        ("[matching]\nkept = 3", r"unknown setting \[matching\] 'kept'; known: hold_s"),
        ("[offers]\nnodes = ['alpha']", r"'alpha' is not CLUSTER=NODES"),
        ("[lending]\nnodes = 1", r"unknown setting \[lending\] 'nodes'; known: matching, offers, ranking"),
        ("matching = 1", "unknown setting 'matching'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(toml(tmp_path, text), {}, {}, all_sections())
    assert "jobsight.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("file", "environment", "flags", "message"),
    [
        (None, {}, {"coverage": "95"}, r"^--coverage 95: give a fraction between 0 and 1, such as 0\.95$"),
        (Path("/absent"), {}, {}, r"^settings file .*absent: No such file or directory$"),
        (None, {"JOBSIGHT_QUERY_WORKERS": "-1"}, {}, r"JOBSIGHT_QUERY_WORKERS: query_workers = '-1'"),
        (None, {"JOBSIGHT_RETENTION_DAYS": "Infinity"}, {}, "JOBSIGHT_RETENTION_DAYS: retention_days = 'Infinity'"),
        (None, {}, {"query_workers": "1000000"}, "--query-workers: query_workers = '1000000': expected `int` <= 256"),
        (None, {}, {"profile_grace_s": "soon"}, r"--profile-grace-s: profile_grace_s = 'soon'"),
        (None, {}, {"accounting": ["alpha="]}, r"--accounting: .*expected a path, got ''"),
    ],
)
def test_a_wrong_value_from_elsewhere_is_named_too(
    file: Path | None, environment: dict[str, str], flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(file, environment, flags)


@pytest.mark.parametrize("address", ["8470", "localhost", "localhost:", ":8470", "host:99999", "host:-1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(SettingsError, match="is not an address"):
        split_address(address)


def test_placing_systems_have_tables_of_their_own(tmp_path: Path) -> None:
    file = toml(tmp_path, '[matching]\nhold_s = 60\n[offers]\nnodes = ["alpha=4"]\n')
    environment = {"JOBSIGHT_RANKING_METHOD": "grv", "JOBSIGHT_MATCHING_HOLD_S": "70"}
    settings = load_settings(file, environment, {"matching_hold_s": "80"}, all_sections())
    assert settings.section(MatchingSettings) == MatchingSettings(hold_s=80.0)
    assert settings.section(OffersSettings).nodes == ("alpha=4",)
    assert settings.section(RankingSettings).method == "grv"
    assert load_settings(file, environment).section(MatchingSettings) == MatchingSettings()


def test_settings_of_an_earlier_release_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = '[[accounting]]\ncluster = "a"\nsacct = ["sacct"]\noverlap_s = 7.0\n[matching]\nfrom_agents = true\n'
    file = toml(tmp_path, f"session_hours = 3\nlearn_apportioned = true\nquery_workers = 4\n{source}")
    settings = load_settings(file, {}, {}, all_sections())
    assert (settings.query_workers, settings.accounting[0].overlap_s) == (4, 900.0)
    for gone in ("'session_hours'", "'learn_apportioned'", "'from_agents'", "'overlap_s' of [[accounting]]"):
        assert f"setting {gone} no longer exists; remove it" in caplog.text


ALL = (*SETTINGS, *(one for kind in all_sections() for one in settings_in(kind, kind.SECTION)))


def test_there_are_few_settings_and_every_default_is_within_its_own_bounds() -> None:
    in_tables = [field for kind in TABLES for field in {*kind.__struct_fields__} - getattr(kind, "FIXED", frozenset())]
    assert len(ALL) + len(in_tables) <= 62
    assert [setting.parse(setting.default, "default") for setting in ALL] == [one.default for one in ALL]


TABLES = (AccountingSource, MeasurementSource, AdjustLimits, Access, Mail, WeeklyMail)


@pytest.mark.parametrize("kind", [Settings, *all_sections(), *TABLES])
def test_every_number_that_a_site_chooses_has_a_least_and_a_most(kind: type) -> None:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        of_number, bounds = [*get_args(hint), None, None][:2]
        if of_number in (int, float):
            assert None not in (bounds.le if bounds.lt is None else bounds.lt, bounds.ge if bounds.gt is None else 0), (
                name
            )


def test_every_setting_is_in_the_operations_document_with_its_default() -> None:
    document = (Path(__file__).parents[3] / "docs" / "operate" / "operations.md").read_text()
    for setting in ALL:
        assert f"| `{setting.name}` | `{setting.default_text}` | {setting.help} |" in document
