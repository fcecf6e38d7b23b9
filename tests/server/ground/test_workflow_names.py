"""The jobs of a workflow engine's task are one application, whatever the engine writes into their names."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from tests.traces import trace

from jobsight_server.ground.job_names import HABITS, application, readable_name

UUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
INVALID = str.maketrans(dict.fromkeys(" /:@*?", "_"))  # in Nextflow's names of jobs

TASKS = {
    "NFCORE_MAG_MAG_PROKKA": [
        "nf-NFCORE_MAG_MAG_PROKKA_(MEGAHIT-MetaBAT2-s1.2)", "nf-NFCORE_MAG_MAG_PROKKA_(a_(b))",
        "nf-NFCORE_MAG_MAG_PROKKA_(cut after so many charac", "nf-NFCORE_MAG_MAG_PROKKA", "NFCORE_MAG:MAG:PROKKA (s1)",
        "NFCORE_MAG:MAG:PROKKA",
    ],
    "fastqc": ["nf-fastqc_(12)", "nf-fastqc_(two\nlines)", "fastqc (reads/1.fq)", "nf-fastqc_12"],
    "align": ["snakejob.align.12.sh", "snakejob.align", "snakejob.align."],
    "bwa_mem_ann_example_org": ["g4711_bwa_mem_ann_example_org", "g123456_bwa_mem_ann_example_org"],
    "sort": ["cromwell_0a1b2c3d_sort", "toil_job_12_sort", "toil_job_3_sort"],
    "toil_job": ["toil_job_12"],
    "nf-core-run": ["nf-core-run"],
    "g16_water.sh": ["g16_water_2.sh"],
    "cromwell_server": ["cromwell_server"],
    None: [UUID, f"mine_{UUID}"],
}  # fmt: skip


@pytest.mark.parametrize(("task", "names"), TASKS.items())
def test_names_of_one_task_are_one_application(task: str | None, names: list[str]) -> None:
    assert {name: application(name) for name in names} == dict.fromkeys(names, task)
    assert task is None or application(task) == task, "and may be asked for as pages show it"


def test_each_habit_is_documented() -> None:
    document = (Path(__file__).parents[3] / "docs" / "operate" / "sources.md").read_text()
    assert {habit.engine for habit in HABITS if f"| {habit.engine}" not in document} == set()


@pytest.mark.parametrize("workflow", ["eager", "mag"])
def test_processes_of_a_recorded_workflow_are_its_applications(workflow: str) -> None:
    with gzip.open(trace(f"nextflow/{workflow}.csv.gz"), "rt") as lines:
        processes = [row["process"] for row in csv.DictReader(lines)]
    named = {(process, f"nf-{f'{process} (lib {n}.fq)'.translate(INVALID)}") for n, process in enumerate(processes)}
    assert len(named) == len(processes)
    assert len({(process, application(name)) for process, name in named}) == len(set(processes))
    assert len({application(name) for _, name in named}) == len(set(processes))


@pytest.mark.parametrize(
    ("comment", "rule"),
    [
        ("rule_align_wildcards_s1_L001", "align"), ("rule_align__wildcards_s1", "align"), ("rule_all", "all"),
        ("rule_map_reads_wildcards_a;b", "map_reads"), ("jobsight: 2G; rule_align; jobsight_asked=time:60", "align"),
    ],
)  # fmt: skip
def test_a_random_name_gives_way_to_the_rule_in_the_comment(comment: str, rule: str) -> None:
    assert readable_name(UUID, comment) == readable_name(f"mine_{UUID}", None, comment) == f"snakejob.{rule}"
    assert readable_name("cfd", comment) == "cfd"


@pytest.mark.parametrize("comment", [None, "", "by hand", "overrule_me"])
def test_a_comment_without_a_rule_changes_nothing(comment: str | None) -> None:
    assert readable_name(UUID, comment) == UUID
