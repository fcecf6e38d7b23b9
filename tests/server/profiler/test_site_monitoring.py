"""A site without agents: its jobs' use comes from its Prometheus or VictoriaMetrics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests import make
from tests.make import not_none
from tests.server.profiler.monitoring import History, Point, prometheus, victoria_metrics

from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.measurements.job_measurements import JobMeasurements
from jobsight_server.profiler.site_monitoring import SiteMonitoring, _together
from jobsight_server.queries.applications import APPLICATIONS, applications
from jobsight_server.queries.job_detail import job_detail, run_efficiencies
from jobsight_server.savings.savings import Asking
from jobsight_server.savings.sums.read import Days
from jobsight_server.savings.waste import WASTE, waste
from jobsight_server.settings.measurements import MeasurementSource
from jobsight_server.web.efficiency_text import efficiency_text

GIB, HOUR_S = 2**30, 3600.0
BEGIN = (time.time() - 10 * HOUR_S) // 60 * 60
START, END = BEGIN + 2 * HOUR_S + 7.3, BEGIN + 4 * HOUR_S + 1.9
LIFE_S = END - START
SCRAPE_S = 15.0

# Of a job on each of its nodes.
BUSY, PEAK, CACHE = 1.7, 6 * GIB, 2 * GIB
RECEIVED_BPS, SENT_BPS = 2.5e7, 9e6

ALPHA = {"cluster": "alpha"}

Curve = Callable[[float], float]


def memory(at: float) -> float:
    """Memory of the job's processes: rises, stays at its peak for five minutes, and falls by half."""
    share = (at - START) / LIFE_S
    middle = START + 0.7 * LIFE_S
    return PEAK if abs(at - middle) < 150.0 else PEAK * 0.5 * min(1.0, 4 * share)


def scrapes(curve: Curve, since: float = START, until: float = END, phase: float = 3.1) -> Iterator[Point]:
    at = BEGIN + phase
    while at < BEGIN + 6 * HOUR_S:
        if since <= at <= until:
            yield at, curve(at)
        at += SCRAPE_S


def used_since(rate: float, begin: float = START) -> Curve:
    return lambda at: rate * (at - begin)


def add_jobstats(history: History) -> None:
    for step in ("", "0"):
        labels = f'cluster="alpha",jobid="2",step="{step}",task="",instance="n3:9306"'
        history.add(f"cgroup_cpu_total_seconds{{{labels}}}", scrapes(used_since(BUSY)))
        history.add(f"cgroup_memory_rss_bytes{{{labels}}}", scrapes(lambda at: memory(at) - GIB / 4))
        history.add(f"cgroup_memory_shmem_bytes{{{labels}}}", scrapes(lambda _: GIB / 4))
    elsewhere = 'cluster="beta",jobid="2",step="",task="",instance="n3:9306"'
    history.add(f"cgroup_memory_rss_bytes{{{elsewhere}}}", scrapes(lambda _: 90 * GIB))
    for gpu, busy in ((0, 80.0), (1, 50.0)):
        labels = f'{{cluster="alpha",jobid="2",instance="n3:9445",minor_number="{gpu}"}}'
        history.add(f"nvidia_gpu_memory_used_bytes{labels}", scrapes(lambda at: 5 * memory(at)))
        history.add(f"nvidia_gpu_duty_cycle{labels}", scrapes(lambda _, busy=busy: busy))
        history.add(f"nvidia_gpu_memory_total_bytes{labels}", scrapes(lambda _: 8.5e10))


def add_idle_gpus(history: History) -> None:
    """Four GPUs held, of which one is busy for a tenth of the life."""
    for gpu in range(4):
        labels = f'{{cluster="alpha",jobid="8",instance="n8:9445",minor_number="{gpu}"}}'
        history.add(f"nvidia_gpu_memory_used_bytes{labels}", scrapes(lambda _, gpu=gpu: gpu * 1e9))
        busy: Curve = lambda at, gpu=gpu: 100.0 if gpu == 1 and at - START < LIFE_S / 10 else 0.0  # noqa: E731
        history.add(f"nvidia_gpu_duty_cycle{labels}", scrapes(busy))


def add_slurm_job_exporter(history: History) -> None:
    labels = 'slurmjobid="3",user="ada",account="a",instance="n4:9798"'
    for core in range(4):
        history.add(
            f'slurm_job_core_usage_total{{{labels},core="{core}"}}', scrapes(lambda at: BUSY / 4 * 1e9 * (at - START))
        )
    history.add(f"slurm_job_memory_rss{{{labels}}}", scrapes(lambda at: memory(at) / 2))
    history.add(f"slurm_job_memory_max{{{labels}}}", scrapes(lambda _: float(PEAK)))
    history.add(f"slurm_job_memory_cache{{{labels}}}", scrapes(lambda _: GIB / 64))
    gpu = f'{labels},gpu="0",gpu_type="A100"'
    history.add(f"slurm_job_memory_usage_gpu{{{gpu}}}", scrapes(lambda _: 3e10))
    history.add(f"slurm_job_utilization_gpu{{{gpu}}}", scrapes(lambda _: 75.0))


def add_ceems(history: History, job: str, node: str, parts: list[tuple[float, float]]) -> None:
    """``parts`` are when the exporter was up: its counters of traffic begin at 0 with each, the kernel's do not."""
    labels = f'{{uuid="{job}",manager="slurm",hostname="{node}",instance="10.0.0.1:9010"}}'
    for since, until in parts:
        first = max(START, since)
        for name, rate in (("user", 0.9 * BUSY), ("system", 0.1 * BUSY)):
            history.add(f"ceems_compute_unit_cpu_{name}_seconds_total{labels}", scrapes(used_since(rate), since, until))
        history.add(f"ceems_compute_unit_memory_rss_bytes{labels}", scrapes(memory, since, until))
        for name, rate in (("ingress", RECEIVED_BPS), ("egress", SENT_BPS)):
            history.add(f"ceems_ebpf_{name}_bytes_total{labels}", scrapes(used_since(rate, first), since, until))


def add_gpus_of_ceems(history: History) -> None:
    """Job 9 holds a whole GPU and a slice of another on n9; other jobs hold the rest, or its GPU after it.

    Series of dcgm-exporter name no job; their labels are renamed as CEEMS wants it, and two servers scrape them.
    """
    for job, gpu, part, share, since, until in (
        ("9", "GPU-a", "", 1.0, START, END), ("9", "GPU-b", "7", 0.25, START, END),
        ("10", "GPU-b", "8", 0.5, START, END), ("10", "GPU-a", "", 1.0, END + 60.0, END + HOUR_S),
    ):  # fmt: skip
        named = f'gpuuuid="{gpu}",' + (f'gpuiid="{part}",' if part else "")
        labels = f'{{uuid="{job}",manager="slurm",hostname="n9",instance="n9:9010",{named}index="0"}}'
        history.add(f"ceems_compute_unit_gpu_index_flag{labels}", scrapes(lambda _, share=share: share, since, until))
    whole = (BEGIN, BEGIN + 6 * HOUR_S)
    for gpu, part, busy in (("GPU-a", "", 80.0), ("GPU-b", "7", 0.5), ("GPU-b", "8", 1.0), ("GPU-c", "", 100.0)):
        for scraped_by in ("dcgm", "dcgm-2"):
            named = f'Hostname="x",instance="n9:9400",job="{scraped_by}",gpuuuid="{gpu}"'
            labels = f'{{{named},gpuiid="{part}"}}' if part else f"{{{named}}}"
            name = "DCGM_FI_PROF_GR_ENGINE_ACTIVE" if part else "DCGM_FI_DEV_GPU_UTIL"
            history.add(f"{name}{labels}", scrapes(lambda _, busy=busy: busy, *whole))
            history.add(f"DCGM_FI_DEV_FB_USED{labels}", scrapes(lambda _: 1024.0, *whole))
            history.add(f"DCGM_FI_DEV_FB_TOTAL{labels}", scrapes(lambda _: 81920.0, *whole))


def add_node_exporter(history: History, node: str) -> None:
    """A node that holds 1 GiB and is quiet without the job."""
    whole = (BEGIN, BEGIN + 6 * HOUR_S)

    def counted(rate: float, idle: float) -> Curve:
        return lambda at: 5e9 + idle * (at - BEGIN) + rate * max(0.0, min(at, END) - START)

    def available(at: float) -> float:
        return 62.0 * GIB - (memory(at) if START <= at <= END else 0.0)

    labels = f'instance="{node}:9100"'
    for core in range(8):
        for mode, rate, idle in (("user", BUSY / 8, 0.001), ("idle", -BUSY / 8, 0.9), ("iowait", 0.05, 0.01)):
            series = f'node_cpu_seconds_total{{{labels},cpu="{core}",mode="{mode}"}}'
            history.add(series, scrapes(counted(rate, idle), *whole))
    history.add(f"node_memory_MemTotal_bytes{{{labels}}}", scrapes(lambda _: 63.0 * GIB, *whole))
    history.add(f"node_memory_MemAvailable_bytes{{{labels}}}", scrapes(available, *whole))
    for card, share in (("eno1", 0.75), ("eno2", 0.25), ("lo", 9.0), ("bond0", 1.0), ("eno1.100", 1.0), ("veth1", 2.0)):
        for name, rate in (("receive", RECEIVED_BPS), ("transmit", SENT_BPS)):
            series = f'node_network_{name}_bytes_total{{{labels},device="{card}"}}'
            history.add(series, scrapes(counted(rate * share, 100.0), *whole))


OUTAGE = (START + 0.4 * LIFE_S, START + 0.4 * LIFE_S + 480.0)
LONG_OUTAGE = (START + 0.4 * LIFE_S, START + 0.7 * LIFE_S)


@pytest.fixture(scope="module", params=[prometheus, victoria_metrics])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    history = History()
    add_jobstats(history)
    add_idle_gpus(history)
    add_slurm_job_exporter(history)
    add_ceems(history, "4", "n5", [(START, END)])
    add_ceems(history, "5", "n5", [(START, OUTAGE[0]), (OUTAGE[1], END)])
    add_ceems(history, "6", "n5", [(START, LONG_OUTAGE[0]), (LONG_OUTAGE[1], END)])
    add_gpus_of_ceems(history)
    add_node_exporter(history, "n6")
    with request.param(tmp_path_factory.mktemp("monitoring"), history) as address:
        yield address


def measured(site: Any, run_id: int, **source: Any) -> dict[str, Any]:
    """The profile of the run by a source with these settings."""
    monitoring = SiteMonitoring([MeasurementSource(cluster="alpha", **source)], time.time)
    assert profile_finished(site.engine, 600.0, time.time, LearningOptions(monitoring=monitoring)) == 1
    found: dict[str, Any] = site.profile(run_id)
    return found


def near(value: float) -> Any:
    return pytest.approx(value, rel=0.02)


def test_ceems_says_which_gpus_and_slices_were_the_jobs(site: Any, url: str) -> None:
    run = site.run("9", START, END, {"n9": 4}, gpus=2)
    found = measured(site, run, url=url, presets=("ceems",))
    assert found["gpu_memory"].value == near(2 * GIB)
    assert (found["gpu_utilisation"].value, found["gpu_utilisation"].mean) == (near(1.3), near(1.3))
    gpus = json.loads(found["gpu_utilisation"].gpus)
    assert [(gpu["gpu"], gpu["busy"], gpu["memory_total_bytes"]) for gpu in gpus] == [
        ("n9/GPU-a", near(0.8), 80 * GIB),
        ("n9/GPU-b/7", near(0.5), 80 * GIB),
    ]
    assert not found["gpu_utilisation"].lower_bound


def test_gpus_that_an_exporter_names_beyond_those_held_are_unknown(sqlite_site: Any, url: str) -> None:
    """Such as all slices of a GPU, with the label of a job that holds one."""
    run = sqlite_site.run("8", START, END, {"n8": 4}, gpus=1)
    found = measured(sqlite_site, run, url=url, presets=("jobstats",), labels=ALPHA)
    for metric in ("gpu_memory", "gpu_utilisation"):
        assert found[metric].value is None
        assert found[metric].reason == "more GPUs were read than it held, and which of them were its is unknown"


def test_a_peak_between_two_scrapes_is_a_lower_bound(site: Any, url: str) -> None:
    run = site.run("3", START, END, {"n4": 4})
    found = measured(site, run, url=url, presets=("slurm_job_exporter",))
    assert found["memory"].value == near(PEAK / 2 / 4)
    assert found["memory"].lower_bound  # the kernel's own maximum is twice that
    assert found["cpu"].value == near(BUSY / 4)
    assert (found["gpu_memory"].value, found["gpu_utilisation"].value) == (3e10, 0.75)


def test_gpus_that_are_held_idle_are_shown_with_the_job_its_user_and_waste(sqlite_site: Any, url: str) -> None:
    run = sqlite_site.run("8", START, END, {"n8": 4}, gpus=4)
    found = measured(sqlite_site, run, url=url, presets=("jobstats",), labels={"cluster": "alpha"})["gpu_utilisation"]
    assert (found.value, found.mean) == (near(1.0), pytest.approx(0.1, rel=0.1))
    days, hours = Days(int(START // DAY_S), int(END // DAY_S)), 4 * LIFE_S / HOUR_S
    reader = AnswerReader(ForecastConfig())
    with sqlite_site.engine.connect() as connection:
        job = not_none(job_detail(connection, reader, "alpha", "8", END))
        seff = efficiency_text(run_efficiencies(connection, reader, "8", END))
        wasted = waste(connection, Asking(connection, reader), WASTE.asked(), days)
        user = applications(connection, reader, "alpha", wasted.rows[0].name, days, APPLICATIONS.asked())
    assert (job.runs[0].gpus, job.runs[0].gpus_busy) == (4, pytest.approx(found.mean / 4))
    assert [gpu.memory_bytes for gpu in job.runs[0].gpu_use] == [0.0, 1e9, 2e9, 3e9]
    assert "GPUs: held 4, busy 0.03 on average." in seff
    assert (wasted.gpus.requested_hours, wasted.gpus.unused_share) == (near(hours), near(1 - found.mean / 4))
    assert wasted.rows[0].gpus == wasted.gpus
    assert (user.gpu_hours_held, user.gpu_hours_busy) == (near(hours), pytest.approx(found.mean * hours / 4, rel=0.02))


@pytest.mark.parametrize(
    ("job", "node", "preset", "held", "attribution"),
    [
        ("4", "n5", "ceems", 2, "cgroup"),  # beside another job
        ("5", "n5", "ceems", 2, "cgroup"),  # its exporter was down for eight minutes of two hours, and counts again
        ("7", "n6.site.example", "node_exporter", 8, "exclusive"),  # the node, less what it holds without the job
    ],
)
def test_traffic_memory_and_cpu(
    site: Any, url: str, job: str, node: str, preset: str, held: int, attribution: str
) -> None:
    run = site.run(job, START, END, {node: held})
    if job == "4":
        site.run("4711", START, END, {node: 8}, profiled=True)
    found = measured(site, run, url=url, presets=(preset,))
    assert found["bandwidth"].value == near(RECEIVED_BPS * 8 / held)
    assert found["memory"].value == near(PEAK / held)
    assert found["cpu"].value == near(BUSY / held)
    assert {found[metric].attribution for metric in ("bandwidth", "memory", "cpu")} == {attribution}


def test_where_too_much_is_unknown_there_is_no_value(site: Any, url: str) -> None:
    run = site.run("6", START, END, {"n5": 2})
    found = measured(site, run, url=url, presets=("ceems",))
    assert found["bandwidth"].value is None
    assert "unknown" in found["bandwidth"].reason
    assert found["memory"].value is None
    assert found["cpu"].value == near(BUSY / 2)  # the kernel went on counting


def test_own_queries_take_precedence(site: Any, url: str) -> None:
    run = site.run("2", START, END, {"n3": 4})
    queries = {
        "memory_bytes": 'max by (instance) (cgroup_memory_rss_bytes{jobid="{job}",step="",cluster="alpha"}) * 2',
        "peak_bytes": "vector({end} - {start})",
    }
    found = measured(site, run, url=url, queries=queries, presets=("jobstats",), labels=ALPHA)
    assert found["memory"].value == near(2 * (PEAK - GIB / 4) / 4)
    assert found["cpu"].value == near(BUSY / 4)


def test_a_query_that_is_refused_is_counted_and_loses_nothing_else(
    site: Any, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = site.run("2", START, END, {"n3": 4})
    found = measured(site, run, url=url, queries={"cache_bytes": "sum(("}, presets=("jobstats",), labels=ALPHA)
    assert found["cpu"].value == near(BUSY / 4)
    assert make.counts(site.engine)["measurements_refused", "alpha: cache_bytes"] == 1
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith(f"{url} refuses a query")
    assert said.endswith("sum((")


def test_job_ids_are_data(site: Any, url: str) -> None:
    """An id that would end the string or match others matches nothing."""
    for job in ('1"} or vector(9e9) #', ".*", "1|.*", "\\", "1\n"):
        run = site.run(job, START, END, {"n1": 2})
        for preset in ("cgroup_exporter", "jobstats"):
            monitoring = SiteMonitoring([MeasurementSource(cluster="alpha", url=url, presets=(preset,))], time.time)
            profile_finished(site.engine, 600.0, time.time, LearningOptions(monitoring=monitoring))
        assert site.profile(run)["cpu"].value is None
    assert not [label for name, label in make.counts(site.engine) if name == "measurements_refused"]


@pytest.fixture(scope="module")
def shared_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus of two clusters, each scraped by two replicas; an exporter's port and a GPU's type change."""
    history, middle = History(), START + 0.45 * LIFE_S
    for cluster, node, factor in (("alpha", "n9", 1.0), ("beta", "m3", 7.0)):
        for replica, phase in (("a", 3.1), ("b", 10.1)):
            for port, kind, since, until in (("9306", "A100", START, middle), ("9307", "A100-SXM", middle + 20.0, END)):
                labels = f'cluster="{cluster}",replica="{replica}",jobid="9",instance="{node}:{port}"'
                own = f'{{{labels},step="",task=""}}'
                gpu = f'{{{labels},minor_number="0",name="{kind}"}}'
                for series, curve in (
                    (f"cgroup_cpu_total_seconds{own}", used_since(factor * BUSY)),
                    (f"cgroup_memory_rss_bytes{own}", lambda at, k=factor: k * (memory(at) - GIB / 4)),
                    (f"cgroup_memory_shmem_bytes{own}", lambda _, k=factor: k * GIB / 4),
                    (f"nvidia_gpu_memory_used_bytes{gpu}", lambda _, k=factor: k * 4e10),
                ):
                    history.add(series, scrapes(curve, since, until, phase))
    with prometheus(tmp_path_factory.mktemp("shared"), history) as address:
        yield address


def test_replicas_a_changed_label_and_a_second_cluster(site: Any, shared_url: str) -> None:
    run = site.run("9", START, END, {"n9": 4})
    found = measured(site, run, url=shared_url, presets=("jobstats",))
    assert found["cpu"].value == near(BUSY / 4)
    assert found["memory"].value == near(PEAK / 4)
    assert not found["memory"].lower_bound
    assert found["gpu_memory"].value == near(4e10)


def test_of_several_servers_the_first_that_has_a_quantity_of_a_node_counts() -> None:
    one = JobMeasurements({"n1": {"memory": ["one"]}}, {}, {"memory": "one"})  # type: ignore[list-item]
    of_other = {"n1": {"memory": ["other"], "cpu_s": ["other"]}, "n2": {"memory": ["other"]}}
    other = JobMeasurements(of_other, {}, {"memory": "other"})  # type: ignore[arg-type]
    found = _together([one, other])
    assert found.nodes == {"n1": {"memory": ["one"], "cpu_s": ["other"]}, "n2": {"memory": ["other"]}}
    assert found.too_low == {"memory": "one"}
