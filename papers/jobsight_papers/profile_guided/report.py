"""Shows the profile-guided experiment on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from jobsight_papers.intervals import interval_text
from jobsight_papers.runner import table_of
from jobsight_server.ground.amounts import percent

Row = Mapping[str, Any]


def show(account: Row, console: Console) -> None:
    """Show users X, Y and Z, the campaign beside the published figures, and the agreement of the real site."""
    given = account["parameters"]["published"]
    console.print(
        f"{account['seeds']} seeds; window {given['window']}, bins {given['bins']}, alpha {given['alpha']:g}. "
        "Accuracy over each user's last 10 jobs, memory in MB, 95 % interval over seeds."
    )
    for user, row in account["users"]["published"].items():
        _user(user, row, account["users"]["default"][user], account["parameters"]["default"]["alpha"], console)
    _campaign(account, console)
    for site in account["site"]:
        _site(site, console)


def _user(user: str, row: Row, with_default: Row, default_alpha: float, console: Console) -> None:
    counts = row["over_seeds"]
    title = f"User {user}: {row['jobs']} jobs, PQM {counts['pqm']['mean']:.2f}"
    table = table_of(title, "forecaster", "next MB", "interval", "accuracy", "interval")
    for name, figures in counts["forecasters"].items():
        following, accuracy = figures["next"], figures["accuracy"]
        table.add_row(
            name,
            f"{following['mean']:.1f}",
            interval_text(following, digits=0),
            _share(accuracy),
            interval_text(accuracy, 100.0),
        )
    console.print(table)
    overshoots = with_default["over_seeds"]["overshoots"]["mean"]
    if user == "Y":
        console.print(
            f"Unclipped, the exponential forecast overshoots {overshoots:.1f} jobs by more than 10 % at alpha "
            f"{default_alpha:g} and {counts['overshoots']['mean']:.1f} at the alpha given; clipped, none."
        )


def _campaign(account: Row, console: Console) -> None:
    for metric, published in account["published"].items():
        found = account["campaign"]["published"][metric]
        title = (
            f"Campaign, {metric}: {percent(found['share_above']['mean'])} of users have PQM above .8 "
            f"(published {percent(published['share_above'])})"
        )
        table = table_of(title, "forecaster", "accuracy", "interval", "PQM > .8", "interval", "published")
        for name, figures in found["forecasters"].items():
            both = (
                f"{percent(published['accuracy'])}, {percent(published['accuracy_above'])}"
                if name == "exponential"
                else ""
            )
            whole, above = figures["accuracy"], figures["accuracy_above"]
            table.add_row(
                name, _share(whole), interval_text(whole, 100.0), _share(above), interval_text(above, 100.0), both
            )
        console.print(table)


def _site(site: Row, console: Console) -> None:
    for metric, row in site["metrics"].items():
        accuracy = row["accuracy"]["exponential"]
        console.print(
            f"Seed {site['seed']} through agents, a TORQUE log and a server: {site['profiled']} of {site['jobs']} jobs "
            f"profiled; {percent(row['within_1_percent'], 1)} of {row['values']} {metric} values within 1 % of the "
            f"truth; accuracy of the exponential forecast {percent(accuracy['site'], 1)}, without the server "
            f"{percent(accuracy['pure'], 1)}."
        )


def _share(figure: Row) -> str:
    return "-" if figure["mean"] is None else percent(figure["mean"], 1)
