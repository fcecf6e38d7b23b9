"""Policies that ask again while jobs wait: schedules worked out by hand, what is asked, what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import pytest

from jobsight_predictor.question import Question
from jobsight_scheduler.policies import PolicyEntry, choose_policy
from jobsight_scheduler.policies.sjf import Sjf
from jobsight_scheduler.prediction import AskedAgain, Jobsight, LastTwo


class Counted(Jobsight):
    """Counts how often it is asked again."""

    def __init__(self, questions: list[Question]) -> None:
        super().__init__(questions)
        self.asked: Counter[Hashable] = Counter()

    def again(self, job: int) -> float | None:
        self.asked[self.alike(job)] += 1
        return super().again(job)


def test_thousands_that_wait_are_asked_for_once_after_something_was_learned() -> None:
    questions = [Question(user=f"u{i % 2}", requested_time_s=60.0) for i in range(3000)]
    predictor = Counted(questions)
    asked = AskedAgain(predictor)
    first = [asked.forecast(job) for job in range(3000)]
    for value in (10.0, 20.0):
        asked.learn(int(value), value)
        for _ in range(3):
            known = [asked.again(job) for job in range(11, 3000) if job != 20]
    assert first == [None] * 3000
    assert len(set(known)) <= 2
    assert None not in known
    assert list(predictor.asked.values()) == [2, 2]


def test_asking_again_changes_nothing_that_is_learned() -> None:
    questions = [Question(user=f"u{i % 3}", requested_time_s=60.0 + i) for i in range(60)]
    quiet, noisy = Jobsight(questions), AskedAgain(Jobsight(questions))
    for job in range(60):
        assert quiet.forecast(job) == noisy.forecast(job)
        if job >= 10:
            for predictor in (quiet, noisy):
                predictor.learn(job - 10, float(job % 7))
            for other in range(job - 9, job + 1):
                noisy.again(other)
    assert [quiet.again(job) for job in range(60)] == [noisy.again(job) for job in range(60)]


def test_only_forecasts_of_the_same_user_change_where_each_has_a_history_of_its_own() -> None:
    asked = AskedAgain(LastTwo([Question(user=user) for user in "aaabb"]))
    assert [asked.again(job) for job in (2, 4)] == [None, None]
    for job in (0, 1):
        asked.learn(job, 10.0)
    assert [asked.again(job) for job in (2, 4)] == [10.0, None]
    asked.learn(2, 30.0)
    assert asked.again(2) == 20.0


def test_policies_that_cannot_ask_again() -> None:
    with pytest.raises(ValueError, match=r"^fcfs asks for no forecasts; sjf and easy\+\+ can be made to ask again$"):
        choose_policy("fcfs").asking_again()
    with pytest.raises(ValueError, match=r"^sjf asks for no forecasts without a predictor: name one of last-two, "):
        choose_policy("sjf").asking_again()
    own = PolicyEntry(Sjf, takes_predictor=True)
    with pytest.raises(ValueError, match=r"^mine decides itself when to call again\(\) of its predictor; sjf and easy"):
        choose_policy("mine", "last-two", own).asking_again()
