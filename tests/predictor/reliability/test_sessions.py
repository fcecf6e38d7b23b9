"""Sessions of machines from what they report: owners, boots, silence, clocks that jump, reinstallations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsight_predictor.reliability.sessions import Presence, Session, Sighting, Step, seen, silent


def followed(sightings: Sequence[Sighting]) -> tuple[Presence, list[Session]]:
    presence, ended = Presence(), []
    for sighting in sightings:
        step = seen(presence, sighting)
        presence = step.presence
        ended += [step.ended] if step.ended else []
    return presence, ended


def test_a_session_runs_from_the_return_to_the_owner() -> None:
    presence, ended = followed(
        [Sighting(at, "b1", at - 50.0, owner) for at, owner in ((100.0, False), (400.0, False), (700.0, True))]
    )
    assert ended == [Session(100.0, 700.0, "owner")]
    assert presence.since_s is None
    step = seen(presence, Sighting(1000.0, "b1", 950.0, False))
    assert step == Step(step.presence)
    assert step.presence.since_s == 1000.0


def test_a_boot_ends_the_session_with_the_last_sighting_and_begins_one() -> None:
    presence, ended = followed([Sighting(100.0, "b1", 50.0), Sighting(400.0, "b1", 350.0), Sighting(700.0, "b2", 40.0)])
    assert ended == [Session(100.0, 400.0, "shutdown")]
    assert (presence.since_s, presence.boots) == (660.0, 1)


def test_silence_ends_the_session_once() -> None:
    begun = seen(Presence(), Sighting(100.0, "b1")).presence
    assert silent(begun, 700.0) == Step(begun)
    gone = silent(begun, 701.0)
    assert gone.ended == Session(100.0, 100.0, "silence")
    assert gone.presence.since_s is None
    assert silent(gone.presence, 5000.0).ended is None
    back = seen(gone.presence, Sighting(6000.0, "b1"))
    assert (back.ended, back.presence.since_s) == (None, 6000.0)
    assert seen(begun, Sighting(6000.0, "b1")).ended == Session(100.0, 100.0, "silence")


def test_a_late_sighting_after_silence_resumes() -> None:
    gone = silent(seen(Presence(), Sighting(100.0)).presence, 701.0).presence
    assert seen(gone, Sighting(650.0)).presence.since_s == 650.0


def test_a_clock_that_jumps_moves_the_session_along() -> None:
    begun = seen(seen(Presence(), Sighting(1000.0, "b1", 500.0)).presence, Sighting(1300.0, "b1", 800.0)).presence
    for jump_s in (1e6, -1e6, 86_400.0):
        step = seen(begun, Sighting(1600.0 + jump_s, "b1", 1100.0))
        assert step.ended is None
        assert step.presence.since_s == pytest.approx(1000.0 + jump_s)
        assert step.presence.clock_jumps == 1
    back = seen(seen(Presence(), Sighting(1000.0)).presence, Sighting(400.0))
    assert (back.ended, back.presence.since_s, back.presence.clock_jumps) == (None, 400.0, 1)


SIGHTINGS = st.lists(
    st.builds(
        Sighting,
        st.one_of(st.floats(0.0, 5000.0), st.floats(-1e30, 1e30)),
        st.sampled_from([None, "b1", "b2"]),
        st.one_of(st.none(), st.floats(0.0, 1e30)),
        st.sampled_from([None, True, False]),
        st.sampled_from([None, "i1", "i2"]),
    ),
    max_size=30,
)


@given(SIGHTINGS)
def test_whatever_is_reported_sessions_are_whole_and_records_plain(sightings: list[Sighting]) -> None:
    presence, ended = followed(sightings)
    assert all(one.end_s >= one.start_s for one in ended)
    assert Presence(**asdict(presence)) == presence
    if sightings:
        last = sightings[-1]
        assert presence.seen_s == last.at_s
        assert (presence.since_s is None) == presence.owner
        assert presence.since_s is None or presence.since_s <= last.at_s
