"""Settings: where a value comes from, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobsight_server.forecasts import method_of
from jobsight_server.serve.handover import settings_from_json, settings_to_json
from jobsight_server.settings import SETTINGS, AccountingSource, SettingsError, load_settings, split_address


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "jobsight.toml"
    file.write_text('listen = "0.0.0.0:1"\nquery_workers = 3\nretention_days = 7\n')
    environment = {"JOBSIGHT_QUERY_WORKERS": "4", "JOBSIGHT_RETENTION_DAYS": "8", "PATH": "/bin"}
    settings = load_settings(file, environment, {"retention_days": "9", "max_future_s": None})
    assert (settings.listen, settings.query_workers, settings.retention_days) == ("0.0.0.0:1", 4, 9.0)
    assert settings.max_future_s == 300.0


def test_accounting_directories_from_file_and_flag(tmp_path: Path) -> None:
    file = tmp_path / "jobsight.toml"
    file.write_text('[[accounting]]\ncluster = "alpha"\ndirectory = "/var/a"\n')
    settings = load_settings(file, {}, {"accounting": ["beta=/var/b=c"]})
    assert settings.accounting == (
        AccountingSource("alpha", Path("/var/a")),
        AccountingSource("beta", Path("/var/b=c")),
    )
    assert settings_from_json(settings_to_json(settings)) == settings


def test_several_texts_from_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "jobsight.toml"
    file.write_text('templates = ["user + queue", "site"]\n')
    assert load_settings(file, {}).templates == ("user + queue", "site")
    settings = load_settings(file, {"JOBSIGHT_TEMPLATES": "user+application site"})
    assert method_of(settings).templates == (("user", "application"), ())
    with pytest.raises(SettingsError, match="JOBSIGHT_TEMPLATES: templates = 'me': template 'me': no field 'me'"):
        load_settings(None, {"JOBSIGHT_TEMPLATES": "me"})


@pytest.mark.parametrize("text", ["true", '"True"', "1"])
def test_a_yes_or_no_from_file_and_environment(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobsight.toml"
    file.write_text(f"learn_apportioned = {text}\n")
    settings = load_settings(file, {})
    assert settings.learn_apportioned is method_of(settings).learn_apportioned is True
    assert settings_from_json(settings_to_json(settings)) == settings
    assert load_settings(file, {"JOBSIGHT_LEARN_APPORTIONED": "false"}).learn_apportioned is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listne = 1", "unknown setting 'listne'"),
        ("query_workers = 0", "query_workers = 0 must be at least 1"),
        ('query_workers = "many"', "query_workers = 'many' is not a whole number"),
        ("query_workers = true", "query_workers = True is not a whole number"),
        ("learn_apportioned = 2", "learn_apportioned = 2 is neither true nor false"),
        ('learn_apportioned = "perhaps"', "learn_apportioned = 'perhaps' is neither true nor false"),
        ("listen = 8470", "listen = 8470 is not text"),
        ("retention_days = nan", "retention_days = nan must be at least"),
        ("listen = ", "jobsight.toml: Invalid"),
        ("coverage = 1", "coverage = 1: it is a share of jobs"),
        ("coverage = nan", "coverage = nan: it is a share of jobs"),
        ("templates = []", r"templates = \[\] is not a list of texts with at least one in it"),
        ("templates = [1]", r"templates = \[1\] is not a list of texts"),
        ('templates = ["user", "usr+queue"]', "no field 'usr'"),
        ('[[accounting]]\ncluster = "a"', "accounting needs cluster and directory"),
        ('[[accounting]]\ncluster = "a"\ndirectory = "b"\nformat = "lsf"', "accounting format 'lsf'"),
        ('[[accounting]]\ncluster = "a"\ndirectory = "b"\nfromat = "torque"', "unknown 'fromat'"),
        ("accounting = 1", r"must be \[\[accounting\]\] tables"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "jobsight.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(file, {})
    assert "jobsight.toml" in str(caught.value)


def test_environment_and_flags_are_named_too() -> None:
    with pytest.raises(SettingsError, match=r"JOBSIGHT_QUERY_WORKERS: query_workers = '-1'"):
        load_settings(None, {"JOBSIGHT_QUERY_WORKERS": "-1"})
    with pytest.raises(SettingsError, match=r"--max-future-s: max_future_s = 'soon'"):
        load_settings(None, {}, {"max_future_s": "soon"})


@pytest.mark.parametrize("address", ["8470", "localhost", "localhost:", ":8470", "host:99999", "host:-1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(SettingsError, match="is not an address"):
        split_address(address)


def test_every_setting_is_in_the_operations_document_with_its_default() -> None:
    document = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for setting in SETTINGS:
        assert f"| `{setting.name}` | `{setting.default_text}` | {setting.help} |" in document
