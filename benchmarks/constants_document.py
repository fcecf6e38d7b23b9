"""Writes docs/develop/constants.md from what benchmarks/constants.py measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

CLEAR = 3.0
"""Standard errors from which on a change is more than noise: with hundreds of figures, two are often chance."""

COLUMNS = ("hit", "brier", "held", "waste")

TEXT = """# What the constants do

`python benchmarks/constants.py` generates this document. It halves and doubles each constant behind Jobsight's answers, or switches off its purpose, and replays the first {jobs:,} jobs of two traces: the memory of UniLu-Gaia and of LANL-CM5, with bounds for 95 % of jobs. A constant that only matters elsewhere is varied there: with run times, or a coverage of 90 %, as its line says. For a fading memory, the length is halved and doubled; for a factor, its distance from 1.

- *Hits*: jobs whose forecast is within 20 %, in points (1 point is 1 % of jobs).
- *Brier*: mean squared error of the probability of a hit, in points (0.01); less is better.
- *Covered*: jobs that stay within their bound, in points.
- *Waste*: change in what bounds waste, in value x seconds, in per cent; less is better.

**Bold** is more than noise: beyond three standard errors, computed over blocks of 100 jobs. A dot means no change at all.

{clear} of {varied} constants change something beyond noise when halved, doubled or switched off. The others are within the noise of this many jobs: {flat}. [Constants](design.md#constants) explains why they stay, and which were removed.

{tables}
## Not varied

{left_out}
"""  # noqa: E501


class Effect(NamedTuple):
    """A change, and its standard error."""

    change: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether it is more than noise."""
        return abs(self.change) > CLEAR * self.error


class Line(Protocol):
    """A line of a module's table of constants."""

    @property
    def module(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def meaning(self) -> str: ...


def document(
    constants: Sequence[Line], not_varied: Mapping[str, str], lines: Iterable[Mapping[str, Any]], jobs: int
) -> str:
    """The document; `lines` are measurements as `constants.measure` makes them."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        found.setdefault((line["module"], line["constant"]), []).append(line)
    tables = [
        f"## `{module}`\n\n{_meanings([c for c in constants if c.module == module])}\n\n"
        f"{_effects([line for c in constants for line in found.get((c.module, c.name), ()) if c.module == module])}\n"
        for module in dict.fromkeys(c.module for c in constants if c.name not in not_varied)
    ]
    left_out = [f"- `{c.name}` = {c.value} ({c.unit}; {c.meaning}): {not_varied[c.name]}." for c in constants
                if c.name in not_varied]  # fmt: skip
    clear = {
        key
        for key, measured in found.items()
        if any(Effect(**effect).is_clear for line in measured for effect in line["effects"].values())
    }
    flat = ", ".join(f"`{name}`" for module, name in found if (module, name) not in clear) or "none"
    return TEXT.format(
        jobs=jobs,
        clear=len(clear),
        varied=len(found),
        flat=flat,
        tables="\n".join(tables),
        left_out="\n".join(left_out),
    )


def _meanings(constants: Sequence[Line]) -> str:
    rows = [f"| `{c.name}` | {c.value} | {c.unit} | {c.meaning} |" for c in constants]
    return "\n".join(("| constant | value | unit | meaning |", "|---|---|---|---|", *rows))


def _effects(lines: Sequence[Mapping[str, Any]]) -> str:
    if not lines:
        return "Not measured."
    traces = list(dict.fromkeys(line["trace"] for line in lines))
    heads = [f"{trace}: hits | Brier | covered | waste" for trace in traces]
    rows = [f"| varied | times | {' | '.join(heads)} |", f"|---|---|{'---:|' * 4 * len(traces)}"]
    cases: dict[tuple[str, float], dict[str, Mapping[str, Any]]] = {}
    for line in lines:
        cases.setdefault((line["part"], line["by"]), {})[line["trace"]] = line
    for (part, by), by_trace in sorted(
        cases.items(), key=lambda case: [line["part"] for line in lines].index(case[0][0])
    ):
        setting = next(iter(by_trace.values()))["setting"]
        note = "" if setting == "memory, cost, 95%" else f" ({setting})"
        cells = [_cell(Effect(**by_trace[trace]["effects"][name])) for trace in traces for name in COLUMNS]
        rows.append(f"| `{part}`{note} | {f'{by:g}' if by else 'off'} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(effect: Effect) -> str:
    if effect.change == 0.0 and effect.error == 0.0:
        return "·"
    text = f"{effect.change:+.2f}"
    return f"**{text}**" if effect.is_clear else text
