"""The policies that ship, by the names used in commands."""

from __future__ import annotations

from jobsight_scheduler.validator.conservative import check_promises
from jobsight_scheduler.validator.queue_order import (
    check_head_waits_for_room,
    check_order,
    check_room_is_used,
    check_shortest_first,
)
from jobsight_scheduler.validator.reservation import check_reservation

from .conservative import Conservative
from .easy import Easy
from .easy_plus import EasyPlus
from .entry import PolicyEntry
from .fcfs import Fcfs
from .multifactor import Multifactor
from .sjf import Sjf

POLICIES: dict[str, PolicyEntry] = {
    "fcfs": PolicyEntry(Fcfs, rules=(check_order, check_head_waits_for_room)),
    "sjf": PolicyEntry(Sjf, request_rules=(check_shortest_first,), takes_predictor=True, asks_again=True),
    "easy": PolicyEntry(Easy, rules=(check_head_waits_for_room, check_reservation)),
    # It promises no start: predictions are corrected.
    "easy++": PolicyEntry(
        EasyPlus,
        rules=(check_head_waits_for_room,),
        takes_predictor=True,
        default_predictor="last-two",
        asks_again=True,
    ),
    "conservative": PolicyEntry(Conservative, rules=(check_promises,)),
    # Nor does this: priorities change while jobs wait.
    "multifactor": PolicyEntry(Multifactor, rules=(check_room_is_used,), needs_questions=True),
}
