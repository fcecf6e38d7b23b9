"""Rows of results, the published figures beside them, and the table as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

PUBLISHED: dict[tuple[str, str], dict[str, str]] = {
    ("eager", "A"): {
        "presets": "2482/0",
        "witt-percentile": "860/65",
        "witt-lr": "1161/125",
        "tovar": "624/39",
        "largest-seen": "367/12",
        "least-past-waste": "153/37",
        "least-expected-waste": "184/35",
    },
    ("mag", "A"): {
        "presets": "1991/0",
        "witt-percentile": "310/232",
        "witt-lr": "291/727",
        "tovar": "309/762",
        "largest-seen": "360/11",
        "least-expected-waste": "253/286",
        "neighbours": "220/265",
    },
    ("eager", "B"): {"largest-seen": "2452/143"},
    ("mag", "B"): {"vpa": "3386/203"},
}
"""GBh / failed attempts from the papers' own programs or an earlier run by others, by trace and protocol."""


class Row(NamedTuple):
    """``by_size``: the rule saw the size that the task would read, which is known only afterwards."""

    trace: str
    protocol: str
    rule: str
    gbh: float
    failures: int
    by_size: bool = False

    @property
    def published(self) -> str | None:
        return PUBLISHED.get((self.trace, self.protocol), {}).get(self.rule)

    @property
    def is_ours(self) -> bool:
        return self.rule.startswith("jobsight")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], labels: int = 1) -> str:
    """Write a table of numbers, but for the first columns, which are ``labels``."""
    rule = ["---"] * labels + ["--:"] * (len(header) - labels)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def comparison(rows: Sequence[Row]) -> str:
    """Write the rules by trace and protocol: GBh / failed attempts, beside the published figures.

    Of Jobsight also the GBh over the least of a peer.
    """
    columns = list(dict.fromkeys((row.trace, row.protocol) for row in rows))
    peers = [row for row in rows if not row.is_ours]
    least = {of: min(row.gbh for row in peers if (row.trace, row.protocol) == of) for of in columns}
    found = {(row.rule, row.trace, row.protocol): row for row in rows}
    header, body = ["rule"], []
    for trace, protocol in columns:
        header += [f"{trace} {protocol}", "published"] if (trace, protocol) in PUBLISHED else [f"{trace} {protocol}"]
    for rule, by_size in dict.fromkeys((row.rule, row.by_size) for row in rows):
        cells = [f"{rule} *" if by_size else rule]
        for trace, protocol in columns:
            row = found[rule, trace, protocol]
            ratio = f" ({row.gbh / least[trace, protocol]:.2f})" if row.is_ours else ""
            cells.append(f"{row.gbh:.0f}/{row.failures}{ratio}")
            if (trace, protocol) in PUBLISHED:
                cells.append(row.published or "")
        body.append(cells)
    return markdown(header, body)
