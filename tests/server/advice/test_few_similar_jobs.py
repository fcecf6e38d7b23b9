"""With few similar jobs, the next one may use more than the largest of them."""

from __future__ import annotations

from jobsight_predictor.question import Question
from jobsight_server.forecasts.decision import MANY, Need, Use, decide
from jobsight_server.forecasts.such_jobs import SuchJob, such_jobs


def test_what_twenty_similar_jobs_used_is_enough() -> None:
    uses = [Use(300.0, number) for number in range(MANY)]
    need = Need(310.0, [(310.0, 0.95), (500.0, 0.99)])
    assert decide("memory", 1000.0, uses, need, 1.0).amount == 310.0
    assert decide("memory", 1000.0, uses[1:], need, 1.0).amount == 375.0


def test_a_burst_is_one_observation_however_many_jobs_it_has() -> None:
    need = Need(310.0, [(310.0, 0.99)])
    two_bursts = [Use(300.0 + (number == 5), number // 50) for number in range(100)]
    two_bursts[70] = Use(500.0, 1)
    assert decide("memory", 1000.0, two_bursts, need, 1.0).amount == 500.0
    single = [Use(use.amount, number) for number, use in enumerate(two_bursts)]
    assert decide("memory", 1000.0, single, need, 1.0).amount == 310.0


def test_without_a_name_one_large_job_does_not_decide_for_all_others() -> None:
    uses = [Use(5000.0 if number == 60 else 300.0, number) for number in range(100)]
    need = Need(310.0, [(310.0, 0.97)])
    assert decide("memory", None, uses, need, 1.0, is_named=False).amount == 310.0
    for resource, asked in (("memory", 6000.0), ("runtime", 1000.0), ("runtime", 320.0)):
        assert decide(resource, asked, uses, need, 1.0, is_named=False).kept == "no application"
    killed = [Use(1000.0, 101, failed=True), *uses]
    assert decide("runtime", 1000.0, killed, need, 1.0, is_named=False).amount == 1250.0


def test_jobs_of_many_more_or_fewer_processors_are_not_similar() -> None:
    runs = [SuchJob(number, "fluid", 8, 1000.0, 60.0, None) for number in range(10)]
    question = Question(user="ann", application="fluid")
    assert such_jobs(runs, question, 32).uses["memory"][0].amount == 4000.0
    assert (such_jobs(runs, question, 33).jobs, such_jobs(runs, question, 2).jobs) == (0, 10)
    assert such_jobs(runs, question, 1).jobs == 0


def test_jobs_of_other_processors_lower_nothing_and_state_no_share() -> None:
    need, question = Need(1000.0, [(1000.0, 0.97)]), Question(user="ann", application="fluid")
    runs = [SuchJob(i, "fluid", 8, 1000.0, 60.0, None, submitted=100.0 * i, end=100.0 * i + 60.0) for i in range(30)]
    decided = {
        (count, asked): decide("memory", asked, such_jobs(runs, question, count).uses["memory"], need, 1.0)
        for count in (4, 8, 16)
        for asked in (1500.0, 9000.0)
    }
    assert {key for key, found in decided.items() if found.kept == "other processors"} == {
        (4, 1500.0), (4, 9000.0), (16, 9000.0)
    }  # fmt: skip
    assert decided[16, 1500.0].amount == 2000.0, "in proportion, which is no evidence for less"
    assert {key for key, found in decided.items() if found.enough is not None} == {(8, 1500.0), (8, 9000.0)}


def test_memory_of_two_kinds_has_no_largest() -> None:
    runs = [SuchJob(i, "fluid", 8, 1000.0 + i, 60.0, None, memory_is_virtual=i == 3) for i in range(6)]
    question = Question(user="ann", application="fluid")
    assert such_jobs(runs[:3], question, 8).most("memory") == 1002.0
    mixed = such_jobs(runs, question, 8)
    assert (mixed.most("memory"), mixed.most("runtime")) == (None, 60.0)
