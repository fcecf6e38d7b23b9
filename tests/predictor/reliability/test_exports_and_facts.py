"""Hard requirements of jobs, and ranks in the words of HTCondor and Slurm."""

from __future__ import annotations

import numpy as np
import pytest

from jobsight_predictor.reliability.exports import classad, exportable, rank_expression, slurm_weights
from jobsight_predictor.reliability.machine_facts import FactTable, MachineFacts

GIB = 2.0**30


def test_only_machines_that_meet_every_requirement() -> None:
    table = FactTable(
        [
            MachineFacts("Linux", 8 * GIB, 100 * GIB, "infiniband"),
            MachineFacts("windows", 4 * GIB, None, "ethernet"),
            MachineFacts(),
        ]
    )
    for needs, met in (
        (MachineFacts(), [True, True, True]),
        (MachineFacts(system="linux"), [True, False, False]),
        (MachineFacts(memory_bytes=4 * GIB), [True, True, False]),
        (MachineFacts(memory_bytes=4 * GIB + 1.0), [True, False, False]),
        (MachineFacts(storage_bytes=1.0), [True, False, False]),
        (MachineFacts(interconnect="Ethernet"), [False, True, False]),
        (MachineFacts(system="plan9"), [False, False, False]),
    ):
        assert table.meeting(needs).tolist() == met, needs
    assert FactTable([]).meeting(MachineFacts(system="linux")).shape == (0,)
    assert table.meeting(MachineFacts()).dtype == np.bool_


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
    with pytest.raises(ValueError, match="letters"):
        slurm_weights([("n1\nNodeName=n2", 1.0)])
    assert exportable(["n1", "n 2", "<b>", "a.b-c_d"]) == (["n1", "a.b-c_d"], ["n 2", "<b>"])
