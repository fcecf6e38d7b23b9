"""``--help`` of every command: complete words at any width, and values that are named by what they are."""

from __future__ import annotations

import re

import pytest

from jobsight_agent import cli as agent_cli
from jobsight_server import cli

COMMANDS = [
    *([name] for name in cli.COMMANDS),
    *(["token", action] for action in ("create", "list", "revoke", "login")),
]
AGENT = [[], ["run"], ["replay"], ["job-start"], ["job-end"]]
ALL = [(cli.main, arguments) for arguments in COMMANDS] + [(agent_cli.main, arguments) for arguments in AGENT]
HOUSE_WORDS = re.compile(r"\b(told|tells?|anew|comes? of|whoever|nobody|foretold|heard|believe[ds]?)\b")


def names(case: object) -> str:
    return " ".join(case) or "alone" if isinstance(case, list) else ("agent" if case is agent_cli.main else "server")


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
    assert HOUSE_WORDS.findall(text) == []


def test_the_overview_keeps_names_and_explanations_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()[3:]
    assert [re.split(r"\s{2,}", line.strip())[0] for line in lines] == list(cli.COMMANDS)
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--load", "80%"], "argument --load: '80%' is not a number; give one such as 0.8 or 60"),
        (["match", "--deadline", "soon", "x"], "argument --deadline: 'soon' is not a number; give one such as"),
        (["quarantine", "retry", "--wait", "long"], "argument --wait: 'long' is not a number"),
        (["backtest", "x", "--coverage", "95%"], "argument --coverage: 95% is not a fraction above 0 and below 1"),
    ],
)
def test_what_is_no_number_is_said_in_plain_words(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert message in capsys.readouterr().err
