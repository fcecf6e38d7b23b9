"""The rules that size a workflow's tasks, by name, and all of them on one file."""

from __future__ import annotations

from collections.abc import Iterator

from sizing import rules, rules_by_size
from sizing.ours import Decided, Recommended
from sizing.protocols import PROTOCOLS, Rule
from sizing.table import Row
from sizing.tasks import Workflow

PEERS: dict[str, type[rules.OfProcess]] = {
    "presets": rules.Presets,
    "witt-percentile": rules.WittPercentile,
    "witt-lr": rules_by_size.WittLr,
    "witt-wastage": rules_by_size.WittWastage,
    "tovar": rules.Tovar,
    "ponder": rules_by_size.Ponder,
    "sizey": rules_by_size.Sizey,
    "largest-seen": rules.LargestSeen,
    "vpa": rules.Vpa,
    "autopilot-p98": rules.AutopilotP98,
    "autopilot-max": rules.AutopilotMax,
    "least-past-waste": rules.LeastPastWaste,
    "least-expected-waste": rules.LeastExpectedWaste,
    "neighbours": rules_by_size.NearestInSize,
}


def compare(workflow: Workflow, protocol: str, coverage: float) -> Iterator[Row]:
    """Return each rule's row. ValueError if the protocol cannot be applied."""
    rules_by_name: dict[str, Rule] = {name: rules.ByProcess(kind) for name, kind in PEERS.items()}
    rules_by_name["jobsight"] = Recommended(coverage)
    rules_by_name["jobsight-by-size"] = Recommended(coverage, by_size=True)
    if protocol == "B":  # A has no times, which show what was submitted together
        rules_by_name["jobsight-decided"] = Decided(coverage)
        rules_by_name["jobsight-decided-by-size"] = Decided(coverage, by_size=True)
    for name, rule in rules_by_name.items():
        gbh, failures = PROTOCOLS[protocol](workflow.tasks, rule)
        yield Row(workflow.name, protocol, name, gbh, failures, rule.by_size)
