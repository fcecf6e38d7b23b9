"""``--help`` of every command: complete words at any width, and values named by their kind."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.make import output_of

from jobsight_agent import cli as agent_cli
from jobsight_server import cli
from jobsight_server.command_line import arguments as shared
from jobsight_server.command_line.help_text import HelpParser
from jobsight_server.settings.load import SettingsError


def with_subcommands(parser: argparse.ArgumentParser, words: list[str]) -> Iterator[list[str]]:
    """Words before ``--help`` for a command and its subcommands."""
    yield words
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from with_subcommands(below, [*words, name])


def commands() -> Iterator[list[str]]:
    for name, (module, _) in cli.all_commands().items():
        parser = HelpParser(prog=name)
        importlib.import_module(module).add_arguments(parser)
        yield from with_subcommands(parser, [name])


AGENT = [[], ["run"], ["replay"], ["job-start"], ["job-end"], ["status"], ["resend"]]
ALL = [*((cli.main, words) for words in commands()), *((agent_cli.main, words) for words in AGENT)]
MAINS = {cli.main: "server", agent_cli.main: "agent"}


def names(case: object) -> str:
    return " ".join(case) or "alone" if isinstance(case, list) else MAINS[case]  # type: ignore[index]


def help_of(main: object, arguments: list[str], width: int, monkeypatch: pytest.MonkeyPatch, capsys: object) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--help"])  # type: ignore[operator]
    assert left.value.code == 0
    text: str = capsys.readouterr().out  # type: ignore[attr-defined]
    return text


@pytest.mark.parametrize(("main", "arguments"), ALL, ids=names)
def test_no_word_is_cut_at_any_width(
    main: object, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = help_of(main, arguments, 1000, monkeypatch, capsys)
    for width in (80, 60):
        narrow = help_of(main, arguments, width, monkeypatch, capsys)
        assert narrow.split() == wide.split()
        too_wide = [line.strip() for line in narrow.splitlines() if len(line) > width]
        # What the usage puts in brackets is one piece.
        assert [line for line in too_wide if width == 80 or line[0] not in "[{"] == []


@pytest.mark.parametrize(("main", "arguments"), ALL, ids=names)
def test_every_value_is_named_by_what_it_is(
    main: object, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(main, arguments, 1000, monkeypatch, capsys)
    assert re.findall(r"^ +--[\w-]+ (VALUE|[A-Z])\b(?=  |$)", text, re.MULTILINE) == []
    unexplained = r"^ +(?:-\w, )?--[\w-]+(?: [^ \n]+(?: \[[^\n]*\])?)?\n(?! {10,}\S)"
    assert re.findall(unexplained, text, re.MULTILINE) == []


def test_the_overview_keeps_names_and_explanations_apart(capsys: pytest.CaptureFixture[str]) -> None:
    lines = output_of(cli.main, capsys, "--help").splitlines()[6:]
    assert [re.split(r"\s{2,}", line.strip())[0] for line in lines] == list(cli.all_commands())
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.systems
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--load", "80%"], "argument --load: '80%' is not a number; give one such as 0.8 or 60"),
        (["match", "--deadline", "soon", "x"], "argument --deadline: 'soon' is not a number; give one such as"),
        (["backtest", "x", "--coverage", "95%"], "argument --coverage: '95%' is not a number"),
        (["backtest", "x", "--coverage", "95"], "argument --coverage: 95 is not a fraction above 0 and below 1"),
        (["adjust", "--trial", "nan"], "argument --trial: 'nan' is not a number"),
        (["check", "slurm", "--limit", "inf"], "argument --limit: 'inf' is not a number"),
        (["savings", "site.db"], "unrecognized arguments: site.db; a database is an option: --database site.db"),
    ],
)
def test_a_wrong_argument_is_named_in_plain_words(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert message in capsys.readouterr().err


def test_every_command_reads_the_settings_of_the_installed_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed, own = tmp_path / "jobsight.toml", tmp_path / "own.toml"
    monkeypatch.setattr(shared, "INSTALLED", installed)
    monkeypatch.delenv("JOBSIGHT_DATABASE", raising=False)
    monkeypatch.chdir(tmp_path)

    def complaint(*arguments: str) -> str:
        return output_of(cli.main, capsys, "seff", "1", *arguments, status=1)

    assert "sqlite:///jobsight.db" in complaint(), "no such installation"
    installed.write_text('database = "sqlite:////nowhere/installed.db"\n')
    own.write_text('coverage = 0.9\ndatabase = "sqlite:////nowhere/own.db"\n')
    assert "/nowhere/installed.db" in complaint()
    assert "/nowhere/own.db" in complaint("--config", str(own))
    assert "/nowhere/given.db" in complaint("--database", "sqlite:////nowhere/given.db")
    monkeypatch.setenv("JOBSIGHT_DATABASE", "sqlite:////nowhere/environment.db")
    installed.write_text("no toml")
    assert "/nowhere/environment.db" in complaint()
    assert "/nowhere/given.db" in complaint("--database", "sqlite:////nowhere/given.db")
    monkeypatch.delenv("JOBSIGHT_DATABASE")
    assert f"settings file {installed}: " in complaint()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_read_the_settings_is_asked_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        installed = Path(folder) / "jobsight.toml"
        installed.touch(mode=0o600)
        monkeypatch.setattr(shared, "INSTALLED", installed)
        os.seteuid(65534)
        try:
            with pytest.raises(SettingsError, match="run this as the server's user, or give --config or --database"):
                shared.settings_of(argparse.Namespace(config=None))
        finally:
            os.seteuid(0)
