"""The agent's options: the file, then flags; each refusal has the option's name, value and place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_agent.config import OPTIONS, Config, ConfigError, load_config


def load(tmp_path: Path, text: str, **flags: str) -> Config:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    return load_config(file, flags)


def test_every_option_comes_from_the_file_and_from_its_flag(tmp_path: Path) -> None:
    values = {str: "text", int: 7, float: 7.5, tuple: ["a", "b"]}
    wanted = {str: "text", int: 7, float: 7.5, tuple: ("a", "b")}
    flags = {str: "flag", int: "8", float: "8.5", tuple: "c, d,"}
    flagged = {str: "flag", int: 8, float: 8.5, tuple: ("c", "d")}
    for option in OPTIONS:
        kind = type(option.default)
        value, want, flag, by_flag = values[kind], wanted[kind], str(flags[kind]), flagged[kind]
        if option.name == "owner":  # takes only these
            value, want, flag, by_flag = ["load"], ("load",), "logins, load", ("logins", "load")
        if option.name == "cgroups":
            value, want, flag, by_flag = ["a/{job}"], ("a/{job}",), "b/{job}, c/{job}", ("b/{job}", "c/{job}")
        text = f"{option.name} = {json.dumps(value)}\n"
        assert getattr(load(tmp_path, text), option.name) == want
        assert getattr(load(tmp_path, text, **{option.name: flag}), option.name) == by_flag
        others = [o for o in OPTIONS if o is not option]
        assert all(getattr(load(tmp_path, text), other.name) == other.default for other in others)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("intervall = 5", r"unknown option 'intervall'; known: .*interval"),
        ("[interval]\nx = 1", r"interval = \{'x': 1\} is not a number"),
        ("interval = true", "interval = True is not a number"),
        ("interval = nan", "interval = nan is not a number"),
        ("interval = inf", "interval = inf is not a number"),
        ("interval = 'soon'", "interval = 'soon' is not a number"),
        (f"interval = 1{'0' * 400}", "is not a number"),
        ("interval = 0.05", "interval = 0.05 must be at least 0.1"),
        ("interval = -1", "interval = -1 must be at least 0.1"),
        ("interval = 1e300", r"interval = 1e\+300 must be at most 86400"),
        ("batch = 1.5", "batch = 1.5 is not a whole number"),
        ("batch = inf", "batch = inf is not a whole number"),
        ("batch = false", "batch = False is not a whole number"),
        ("batch = 0", "batch = 0 must be at least 1"),
        ("batch = 5001", "batch = 5001 must be at most 5000"),
        ("gzip_level = 10", "gzip_level = 10 must be at most 9"),
        ("backoff_most_s = 1e12", "must be at most 86400"),
        ("batch_age_s = 1e12", "must be at most 86400"),
        ("spool_megabytes = 1e308", r"must be at most 1e\+09"),
        ("spool_hours = 0", "spool_hours = 0 must be at least 0.01"),
        ("exclude = [1]", r"exclude = \[1\] is not a list of texts"),
        ("exclude = 1", "exclude = 1 is not a list of texts"),
        ("exclude = {eth0 = 1}", "is not a list of texts"),
        ("server = 5", "server = 5 is not text"),
        ("server = ['a']", r"server = \['a'\] is not text"),
        ("cluster = ''", "cluster = '': the server takes 1 to 255"),
        ('cluster = "a\\u0000"', "cluster = .*printable"),
        ('node = "a\\u0007"', "node = .*printable"),
        (f"node = '{'n' * 256}'", "node = .*printable"),
        ('cgroups = ["torque"]', "cgroups: 'torque' is not a path below /sys/fs/cgroup"),
        ('cgroups = ["../{job}"]', "cgroups: '../{job}' is not a path"),
        ('cgroups = ["/{job}"]', "cgroups: '/{job}' is not a path"),
        ('cgroups = ["{job}/step"]', "cgroups: '{job}/step' is not a path"),
        ('cgroups = ["{job}_{job}"]', "cgroups: '{job}_{job}' is not a path"),
        ("interval 5", r"agent\.toml: .*line 1"),
        ("interval = 5\ninterval = 6", r"agent\.toml"),
        (f"exclude = {'[' * 3000}", r"agent\.toml"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, line: str, shown: str) -> None:
    with pytest.raises(ConfigError, match=shown):
        load(tmp_path, line)


def test_a_refusal_says_where_the_value_stands(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/agent\.toml: batch = 0 must"):
        load(tmp_path, "batch = 0")
    with pytest.raises(ConfigError, match=r"^--batch-age-s: batch_age_s = 'x' is not a number$"):
        load_config(None, {"batch_age_s": "x"})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"node = '\xe9'")
    for file in (tmp_path / "absent.toml", tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(ConfigError, match=file.name):
            load_config(file, {})
    with pytest.raises(ConfigError, match=r"^configuration .*absent\.toml: No such file or directory$"):
        load_config(tmp_path / "absent.toml", {})


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([option.name for option in OPTIONS]),
    st.text() | st.integers() | st.floats() | st.booleans() | st.lists(st.text() | st.integers(), max_size=3),
)
def test_any_value_is_used_or_refused(name: str, value: object) -> None:
    try:
        config = load_config(None, {name: value})
    except ConfigError as error:
        assert name in str(error)  # noqa: PT017 - both outcomes are right
        return
    option = next(option for option in OPTIONS if option.name == name)
    assert type(getattr(config, name)) is type(option.default)


def test_a_file_of_0_2_may_set_the_options_that_are_gone(tmp_path: Path) -> None:
    assert load(tmp_path, 'compilers = ["gcc-12"]\nlibraries = []\nbatch = 7\n') == load(tmp_path, "batch = 7\n")
