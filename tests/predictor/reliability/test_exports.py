"""Ranks in the words of HTCondor and Slurm."""

from __future__ import annotations

from jobsight_predictor.reliability.exports import classad, exportable, rank_expression, slurm_weights


def test_condor_and_slurm() -> None:
    assert classad(0.25) == "JobsightRank = 0.250000"
    assert classad(None) == classad(float("nan")) == "JobsightRank = undefined"
    assert rank_expression() == "rank = ifThenElse(isUndefined(TARGET.JobsightRank), -1.0, TARGET.JobsightRank)"
    assert slurm_weights([("n1", 1.0), ("n2", 0.0), ("n3", None), ("n4", 0.5), ("n5", 7.0)]) == [
        "NodeName=n1 Weight=1",
        "NodeName=n2 Weight=1000000",
        "NodeName=n3 Weight=1000000",
        "NodeName=n4 Weight=500001",
        "NodeName=n5 Weight=1",
    ]
    assert exportable(["n1", "n 2", "<b>", "a.b-c_d"]) == (["n1", "a.b-c_d"], ["n 2", "<b>"])
