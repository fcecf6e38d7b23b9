"""Jobs' cgroups, in trees as each scheduler and kernel lays them out, and live where this machine has them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.tree import MEMINFO, Node

from jobsight_agent.cgroups import PATTERNS, CgroupReader
from jobsight_agent.counters import NodeReader
from jobsight_agent.reading import MOST_JOBS, JobUsage, from_record, to_record

MB = 1_000_000
FULL = JobUsage("4711", 12.5, 300 * MB, 50 * MB, 600 * MB, 960 * MB, 990 * MB)
MOUNT = Path("sys/fs/cgroup")


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def unified(root: Path, path: str, usage: JobUsage = FULL) -> Path:
    """A group of version 2 as the kernel shows it, with ``usage``."""
    write(root / MOUNT, cgroup__controllers="cpu memory pids\n")
    anon, shmem, file = (usage.anon_bytes or 0, usage.shmem_bytes or 0, usage.file_bytes or 0)
    folder = root / MOUNT / path
    write(
        folder,
        memory__stat=f"anon {anon}\nfile {file + shmem}\nkernel {10 * MB}\nshmem {shmem}\nfile_mapped 7\nanon_thp 4\n",
        memory__current=f"{usage.charged_bytes}\n",
        memory__peak=f"{usage.peak_bytes}\n",
        cpu__stat=f"usage_usec {round((usage.cpu_s or 0) * 1e6)}\nuser_usec 5\nsystem_usec 3\n",
    )
    return folder


def version_1(root: Path, path: str, usage: JobUsage = FULL, accounts: str = "cpuacct") -> Path:
    """The same in version 1; the values of the group itself differ from those with its children."""
    anon, shmem, file = (usage.anon_bytes or 0, usage.shmem_bytes or 0, usage.file_bytes or 0)
    folder = root / MOUNT / "memory" / path
    write(
        folder,
        memory__stat=f"cache 1\nrss 2\nshmem 3\nhierarchical_memory_limit 9223372036854771712\n"
        f"total_cache {file + shmem}\ntotal_rss {anon}\ntotal_rss_huge 8\ntotal_shmem {shmem}\ntotal_mapped_file 9\n",
        memory__usage_in_bytes=f"{usage.charged_bytes}\n",
        memory__max_usage_in_bytes=f"{usage.peak_bytes}\n",
    )
    write(root / MOUNT / accounts / path, cpuacct__usage=f"{round((usage.cpu_s or 0) * 1e9)}\n")
    return folder


def read(root: Path, patterns: tuple[str, ...] = PATTERNS) -> tuple[tuple[JobUsage, ...], list[str]]:
    missed: list[str] = []
    return CgroupReader(root, patterns).read(missed), missed


def renamed(job: str) -> JobUsage:
    return JobUsage(job, *(getattr(FULL, name) for name in list(JobUsage.__dataclass_fields__)[1:]))


@pytest.mark.parametrize(
    ("layout", "path", "job"),
    [
        (unified, "system.slice/slurmstepd.scope/job_4711", "4711"),
        (unified, "system.slice/n01_slurmstepd.scope/job_4711", "4711"),
        (unified, "pbs_jobs.service/jobid/4711.head", "4711.head"),
        (unified, "pbs_jobs.service/jobid/4711[3].head", "4711[3].head"),
        (version_1, "slurm/uid_1000/job_4711", "4711"),
        (version_1, "slurm_n01/uid_1000/job_4711", "4711"),
        (version_1, "pbspro.service/jobid/4711.head", "4711.head"),
        (version_1, "torque/4711.head.example.org", "4711.head.example.org"),
        (version_1, "torque/4711[12].head", "4711[12].head"),
    ],
)
def test_each_layout_is_read(tmp_path: Path, layout: type, path: str, job: str) -> None:
    layout(tmp_path, path)
    write(tmp_path / MOUNT / ("memory" if layout is version_1 else "") / path / "step_batch", cgroup__procs="1\n")
    assert read(tmp_path) == ((renamed(job),), [])


def test_cpuacct_is_found_where_it_is_mounted_with_cpu(tmp_path: Path) -> None:
    version_1(tmp_path, "torque/1.head", accounts="cpu,cpuacct")
    assert read(tmp_path)[0][0].cpu_s == 12.5


def test_groups_of_something_else_are_no_jobs(tmp_path: Path) -> None:
    unified(tmp_path, "system.slice/slurmd.service")
    unified(tmp_path, "system.slice/slurmstepd.scope/system")
    unified(tmp_path, "user.slice/job_3")
    write(tmp_path / MOUNT / "torque", **{"4711.head": "a file"})
    assert read(tmp_path) == ((), [])


def test_a_site_adds_its_pattern(tmp_path: Path) -> None:
    unified(tmp_path, "grid/engine-7/job.4711.1")
    assert read(tmp_path) == ((), [])
    assert read(tmp_path, (*PATTERNS, "grid/engine-?/job.{job}"))[0] == (renamed("4711.1"),)


def test_an_older_kernel_lacks_what_it_lacks(tmp_path: Path) -> None:
    (unified(tmp_path, "torque/1") / "memory.peak").unlink()
    (usage,), missed = read(tmp_path)
    assert (usage.peak_bytes, usage.anon_bytes, missed) == (None, 300 * MB, [])


def test_before_shared_memory_was_counted_mapped_files_stand_for_it(tmp_path: Path) -> None:
    folder = version_1(tmp_path, "torque/1")
    (folder / "memory.stat").write_text("total_cache 900\ntotal_rss 100\ntotal_mapped_file 40\n")
    (usage,), _ = read(tmp_path)
    assert (usage.anon_bytes, usage.shmem_bytes, usage.file_bytes) == (100, 40, 860)


def test_without_the_memory_controller_there_is_cpu_time_and_the_other_way_round(tmp_path: Path) -> None:
    folder = unified(tmp_path, "torque/1")
    for name in ("memory.stat", "memory.current", "memory.peak"):
        (folder / name).unlink()
    assert read(tmp_path) == ((JobUsage("1", 12.5),), [])
    folder = version_1(tmp_path / "v1", "torque/1")
    (tmp_path / "v1" / MOUNT / "cpuacct/torque/1/cpuacct.usage").unlink()
    (usage,), missed = read(tmp_path / "v1")
    assert (usage.cpu_s, usage.peak_bytes, missed) == (None, 990 * MB, [])


def test_a_group_that_makes_no_sense_costs_its_own_value_only(tmp_path: Path) -> None:
    for number, text in enumerate(("anon -5\n", "anon 12x\n", "anon 99999999999999999999\n", "anon \n")):
        (unified(tmp_path, f"torque/{number}") / "memory.stat").write_text(text)
    unified(tmp_path, "torque/4711")
    assert read(tmp_path) == ((FULL,), ["cgroups"] * 4)


def test_an_empty_group_that_is_going_away_is_left_out(tmp_path: Path) -> None:
    unified(tmp_path, "torque/4711")
    (tmp_path / MOUNT / "torque/4712").mkdir()
    assert read(tmp_path) == ((FULL,), [])


def test_what_cannot_be_sent_is_counted(tmp_path: Path) -> None:
    unified(tmp_path, "torque/4711")
    unified(tmp_path, "torque/47\t12")
    unified(tmp_path, "pbs_jobs.service/jobid/4711")  # a second one of the same job
    assert len(read(tmp_path)[0]) == 1
    assert read(tmp_path)[1] == ["cgroups"] * 2
    write(tmp_path / "other" / MOUNT, cgroup__controllers="cpu memory\n")
    for number in range(MOST_JOBS + 3):
        (tmp_path / "other" / MOUNT / f"many/{number}").mkdir(parents=True)
    assert read(tmp_path / "other", ("many/{job}",)) == ((), ["cgroups"] * 3)


def test_a_node_without_cgroups_misses_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) == ((), [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_closed_group_is_counted(tmp_path: Path) -> None:
    unified(tmp_path, "torque/4711").chmod(0)
    assert read(tmp_path) == ((), ["cgroups"])


def test_a_reading_keeps_its_jobs_on_disk_and_an_older_journal_is_still_read(tmp_path: Path) -> None:
    unified(tmp_path, "torque/4711")
    reading = NodeReader(tmp_path).read()
    assert reading.jobs == (FULL,)
    record = to_record(reading)
    assert from_record(record) == reading
    assert len(record) == 14  # without GPUs
    assert from_record(record[:12]) == replace(reading, boottime_s=None)
    assert from_record(record[:11]) == replace(reading, boottime_s=None, jobs=())
    for wrong in (
        ["", 1, 1, 1, 1, 1, 1],
        ["1", -1, 1, 1, 1, 1, 1],
        ["1", 1, 1.5, 1, 1, 1, 1],
        ["1", 1, 1],
        ["1", float("nan"), 1, 1, 1, 1, 1],
    ):
        with pytest.raises(ValueError, match="not a"):
            from_record([*record[:11], [wrong]])
    with pytest.raises(ValueError, match="each with its own id"):
        from_record([*record[:11], [record[11][0]] * 2])


SLUIDS = ("s5K1KKYAYG5D00", "s0000000000001", "sZZZZZZZZZZZZZ", "s5K1KKYAYG5D01")
BY_SLUID = [
    *((unified, f"{top}.slice/{scope}/{name}") for name in SLUIDS for top in ("system", "slurm")  # by CgroupSlice
      for scope in ("slurmstepd.scope", "n01_slurmstepd.scope", "a-b_slurmstepd.scope")),
    *((version_1, f"slurm{node}/uid_{uid}/{name}") for name in SLUIDS for node in ("", "_n01") for uid in (0, 1000)),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "path"), BY_SLUID, ids=[f"{one.__name__} {path}" for one, path in BY_SLUID])
def test_a_group_named_by_a_sluid_is_read_under_it(tmp_path: Path, layout: type, path: str) -> None:
    layout(tmp_path, path)
    sluid = path.rpartition("/")[2]
    assert read(tmp_path) == ((renamed(sluid),), [])
    layout(tmp_path, f"{path.rpartition('/')[0]}/job_4711")
    assert read(tmp_path) == ((FULL, renamed(sluid)), [])


OTHER_NAMES = [
    *((layout, f"pbspro.slice/pbspro-{job}.slice") for layout in (unified, version_1)
      for job in ("4711.head", "4711[3].head", "4711.head\\x2d2", "1.a.example.org")),
    *((layout, f"pbspro/{job}") for layout in (unified, version_1)
      for job in ("4711.head", "4711[].head", "4711[3].head", "1.a.example.org")),
    *((unified, f"system.slice/slurmstepd.scope/{name}")
      for name in ("job_", "4711", "job-4711", "s5k1kkyayg5d00", "s5K1KK", "t5K1KKYAYG5D00")),
    *((version_1, f"slurm/uid_1000/{name}") for name in ("job_", "4711", "sluid", "s5K1KKYAYG5D00.batch")),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "path"), OTHER_NAMES, ids=[f"{one.__name__} {path}" for one, path in OTHER_NAMES])
def test_a_group_of_a_scheduler_that_no_pattern_matches_is_missed(tmp_path: Path, layout: type, path: str) -> None:
    layout(tmp_path, path)
    assert read(tmp_path) == ((), ["cgroups"])
    assert read(tmp_path, ()) == ((), []), "no cgroups are to be read"
    layout(tmp_path, "torque/4711")  # a job beside it is read
    assert read(tmp_path) == ((FULL,), ["cgroups"])
    folder, _, name = path.rpartition("/")
    assert read(tmp_path, (f"{folder}/{name[:1]}{{job}}", "torque/{job}"))[1] == []


def test_other_groups_are_looked_for_once_a_minute(tmp_path: Path) -> None:
    unified(tmp_path, "pbspro/4711.head")
    now = [0.0]
    reader = NodeReader(tmp_path, monotonic=lambda: now[0])
    seen = []
    for now[0] in (0.0, 30.0, 59.0, 60.0, 90.0, 121.0):
        seen.append("cgroups" in reader.read().missed)
    assert seen == [True, False, False, True, False, True]


HUGE = st.dictionaries(st.sampled_from(("64KB", "2MB", "32MB", "1GB", "16GB")), st.integers(0, 2**40), max_size=4)


@settings(deadline=None, max_examples=60)
@given(HUGE, st.sampled_from((unified, version_1)), st.booleans())
def test_huge_pages_of_a_job_are_its_memory(
    tmp_path_factory: pytest.TempPathFactory, sizes: dict[str, int], layout: Any, charged: bool
) -> None:
    """Of all sizes; what is only reserved is not used, and a kernel may charge them with the rest."""
    root = tmp_path_factory.mktemp("huge")
    folder = layout(root, "torque/4711")
    version_2 = layout is unified
    pages = folder if version_2 else root / MOUNT / "hugetlb/torque/4711"
    charged = charged and version_2 and any(sizes.values())
    pages.mkdir(parents=True, exist_ok=True)
    for size, count in sizes.items():
        (pages / f"hugetlb.{size}.{'current' if version_2 else 'usage_in_bytes'}").write_text(f"{count}\n")
        (pages / f"hugetlb.{size}.rsvd.{'current' if version_2 else 'usage_in_bytes'}").write_text(f"{count + 7}\n")
        (pages / f"hugetlb.{size}.{'max' if version_2 else 'limit_in_bytes'}").write_text("max\n")
    if charged:
        (folder / "memory.stat").write_text((folder / "memory.stat").read_text() + f"hugetlb {sum(sizes.values())}\n")
    (usage,), missed = read(root)
    more = sum(sizes.values())
    added = 0 if charged else more
    assert missed == []
    assert (usage.anon_bytes, usage.shmem_bytes, usage.file_bytes) == (300 * MB + more, 50 * MB, 600 * MB)
    assert (usage.charged_bytes, usage.peak_bytes) == (960 * MB + added, 990 * MB + added)


@pytest.mark.parametrize("layout", [unified, version_1])
@pytest.mark.parametrize("taken", [0, 1, 10, 600])
@pytest.mark.parametrize("shown", [None, 0, 4])
@pytest.mark.parametrize("peak", [True, False])
def test_huge_pages_that_a_group_does_not_show_may_be_its_own(
    tmp_path: Path, layout: Any, taken: int, shown: int | None, peak: bool
) -> None:
    """Without the controller the kernel does not say whose they are: the peak may be higher by all that are taken."""
    folder = layout(tmp_path, "torque/4711")
    pages = folder if layout is unified else tmp_path / MOUNT / "hugetlb/torque/4711"
    if shown is not None:
        pages.mkdir(parents=True, exist_ok=True)
        name = "hugetlb.2MB.current" if layout is unified else "hugetlb.2MB.usage_in_bytes"
        (pages / name).write_text(f"{shown * 2**21}\n")
    if not peak:
        (folder / ("memory.peak" if layout is unified else "memory.max_usage_in_bytes")).unlink()
    node = Node(tmp_path)
    lines = [f"HugePages_Total: {taken + 3}", "HugePages_Free: 3", "Hugepagesize: 2048 kB"]
    node.write("proc/meminfo", "\n".join([*MEMINFO.splitlines(), *lines, ""]))
    (usage,) = node.read().jobs
    own = (shown or 0) * 2**21
    charged = 960 * MB + own
    kernels = 990 * MB + own if peak else None
    unseen = taken * 2**21 if shown is None else 0
    assert (usage.anon_bytes, usage.charged_bytes) == (300 * MB + own, charged)
    assert usage.peak_bytes == ((kernels or charged) + unseen if unseen else kernels)
