"""Series of one job in generated variants: replicas, labels that change, other hosts, versions of cgroups, devices.

The truth is known of each. What is measured is within 2 % of it, or marked as too low, or unknown.
"""

from __future__ import annotations

import json
import math
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
from tests.make import not_none

from jobsight_server.measurements import prometheus
from jobsight_server.measurements.job_measurements import JobMeasurements, job_measurements
from jobsight_server.measurements.posting import NoAnswerError
from jobsight_server.profiler.gpus import gpus_of
from jobsight_server.profiler.site_monitoring import cgroup_of, readings_of_node, traffic_of
from jobsight_server.settings.measurements import MeasurementSource

START, LIFE_S, GIB = 1_795_690_000.0, 7200.0, 2.0**30
END = START + LIFE_S
VARIANTS = range(60)
RATE = 3.0  # processors

Curve = Callable[[float], float]


class Engine(ThreadingHTTPServer):
    """Answers instant queries of a selector with the series of its metric, as far as its range; ``sum`` without parts
    by adding up at each time."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.series: list[tuple[dict[str, str], list[tuple[float, float]]]] = []
        self.extra: dict[str, Any] = {}
        self.status = 200
        self.asked: list[dict[str, str]] = []

    def result(self, asked: Mapping[str, str]) -> list[dict[str, Any]]:
        query = asked["query"]
        summed = re.match(r"sum without \(([^)]*)\) \((.*)\)$", query)
        selector = summed[2] if summed else query
        name, until = re.match(r"\w+", selector)[0], float(asked.get("time", asked.get("end", "0")))  # type: ignore[index]
        range_s = re.search(r"\[(\d+)s\]$", query)
        since = until - float(range_s[1]) if range_s else float(asked["start"])
        found: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
        for labels, points in self.series:
            without = set(summed[1].split(", ")) if summed else set()
            if labels["__name__"] != name or not _matches(selector, labels):
                continue
            kept = found.setdefault(tuple((k, v) for k, v in labels.items() if k not in without), {})
            for at, value in points:
                if since < at <= until:
                    kept[at] = kept.get(at, 0.0) + value
        return [
            {"metric": dict(labels), "values": [[at, repr(value)] for at, value in sorted(points.items())]}
            for labels, points in found.items()
        ]


def _matches(selector: str, labels: Mapping[str, str]) -> bool:
    for name, operator, value in re.findall(r'(\w+)(=~|!~|=)"((?:[^"\\]|\\.)*)"', selector):
        value = value.replace("\\\\", "\\")
        has = labels.get(name, "")
        same = has == value if operator == "=" else re.fullmatch(value, has) is not None
        if same is (operator == "!~"):
            return False
    return True


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        self.server.asked.append(asked)
        answer = {"status": "success", "data": {"resultType": "matrix", "result": self.server.result(asked)}}
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(answer | self.server.extra).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def cpu(at: float) -> float:
    return RATE * (at - START)


@dataclass
class Memory:
    """Parts of a job's memory that rise and fall; ``rss`` and ``cache`` as an exporter gives them."""

    anonymous: float = 4 * GIB
    shared: float = 0.0
    file: float = 0.0

    def level(self, at: float) -> float:
        return 0.5 + 0.5 * math.sin(math.pi * min(1.0, max(0.0, (at - START) / LIFE_S))) ** 0.5

    @property
    def peak(self) -> float:
        return self.anonymous + self.shared

    def of(self, amount: float) -> Curve:
        return lambda at: amount * self.level(at)


@dataclass
class Exporter:
    """Source of series: scraped with these labels every ``interval_s`` within time spans."""

    labels: dict[str, str]
    phase: float = 1.0
    interval_s: float = 30.0
    spans: list[tuple[float, float]] = field(default_factory=lambda: [(START, END)])

    def points(self, curve: Curve) -> list[tuple[float, float]]:
        times = np.arange(START + self.phase, END, self.interval_s).round(3)
        return [(float(at), curve(float(at))) for at in times if any(a <= at <= b for a, b in self.spans)]


# Preset -> its label of the job's id, and the names of CPU time, memory parts by the truth's, and other labels.
PRESETS: dict[str, tuple[dict[str, str], dict[str, tuple[str, ...]]]] = {
    "jobstats": (
        {"jobid": "7", "step": "", "task": ""},
        {
            "cgroup_memory_rss_bytes": ("anonymous",),
            "cgroup_memory_shmem_bytes": ("shared",),
            "cgroup_memory_cache_bytes": ("file", "shared"),
        },
    ),
    "slurm_job_exporter": (
        {"slurmjobid": "7", "user": "a", "account": "a"},
        {"slurm_job_memory_rss": ("anonymous",), "slurm_job_memory_cache": ("file", "shared")},
    ),
    "ceems": (
        {"uuid": "7", "manager": "slurm"},
        {
            "ceems_compute_unit_memory_rss_bytes": ("anonymous",),
            "ceems_compute_unit_memory_cache_bytes": ("file", "shared"),
        },
    ),
    "cgroup_exporter": (
        {"cgroup": "/slurm/uid_20821/job_7"},
        {
            "cgroup_memory_rss_bytes": ("anonymous",),
            "cgroup_memory_cache_bytes": ("file", "shared"),
            "cgroup_memory_used_bytes": ("anonymous", "file", "shared"),
        },
    ),
}


def add(engine: Engine, name: str, labels: Mapping[str, str], points: list[tuple[float, float]]) -> None:
    engine.series.append(({"__name__": name, **labels}, points))


def add_job(
    engine: Engine, preset: str, exporter: Exporter, memory: Memory, factor: float = 1.0, **changed: str
) -> None:
    """The series of a job of ``preset`` that one exporter gives."""
    of_job, parts = PRESETS[preset]
    labels = {**of_job, **exporter.labels, **changed}
    if preset == "slurm_job_exporter":
        for core in range(4):
            points = exporter.points(lambda at: factor * cpu(at) / 4 * 1e9)
            add(engine, "slurm_job_core_usage_total", {**labels, "core": str(core)}, points)
    elif preset == "ceems":
        for name, share in (("user", 0.8), ("system", 0.2)):
            points = exporter.points(lambda at, share=share: factor * share * cpu(at))  # type: ignore[misc]
            add(engine, f"ceems_compute_unit_cpu_{name}_seconds_total", labels, points)
    else:
        add(engine, "cgroup_cpu_total_seconds", labels, exporter.points(lambda at: factor * cpu(at)))
    for name, of in parts.items():
        amount = factor * sum(getattr(memory, part) for part in of)
        add(engine, name, labels, exporter.points(memory.of(amount)))


def measured(engine: Engine, preset: str, *nodes: str, **settings: Any) -> JobMeasurements:
    url = f"http://127.0.0.1:{engine.server_port}"
    source = MeasurementSource(cluster="alpha", url=url, **{"presets": (preset,), **settings})
    return job_measurements(source, "7", nodes or ("n1",), START, END)


def check_job(found: JobMeasurements, memory: Memory, node: str = "n1", variant: object = "") -> None:
    """CPU time and the peak of memory are those of the job, or memory is marked."""
    group = not_none(cgroup_of(found.nodes[node]), variant)
    counted = group.cpu_s[np.isfinite(group.cpu_s)]
    last = group.time[np.isfinite(group.cpu_s)][-1]
    assert counted[-1] == pytest.approx(cpu(last), rel=0.02), variant
    assert last > END - 0.12 * LIFE_S, variant
    assert (np.diff(counted) >= -1e-6).all(), variant
    peak = float(np.nanmax(group.used))
    assert peak <= 1.02 * memory.peak, variant
    assert peak >= 0.98 * memory.peak or "memory_bytes" in found.too_low, variant


def spans(rng: random.Random, outages: int) -> list[tuple[float, float]]:
    """The life without some outages of a few minutes, which are neither at its beginning nor at its end."""
    cuts = sorted(rng.uniform(0.1, 0.9) for _ in range(outages))
    edges, begin = [], START
    for cut in cuts:
        at = START + cut * LIFE_S
        if at > begin:
            edges.append((begin, at))
            begin = at + rng.uniform(60.0, 400.0)
    return [*edges, (begin, END)]


def test_replicas_are_one_series(engine: Engine) -> None:
    for variant in VARIANTS:
        rng = random.Random(variant)
        preset, memory = rng.choice(list(PRESETS)), Memory()
        label = rng.choice(["replica", "prometheus_replica", "prometheus", "pod", "monitor"])
        interval_s = rng.choice([15.0, 30.0, 60.0])
        engine.series.clear()
        for replica in range(rng.choice([2, 2, 3])):
            labels = {"instance": "n1:9306", "hostname": "n1", label: f"r{replica}"}
            phase = 1.0 + (rng.choice([0.0, 7.0]) if replica else 0.0) + rng.uniform(0.0, 5.0) * (variant % 3)
            add_job(engine, preset, Exporter(labels, phase, interval_s, spans(rng, rng.randrange(3))), memory)
        check_job(measured(engine, preset), memory, variant=(variant, preset, label))


def test_a_label_that_changes_in_mid_job_is_one_series(engine: Engine) -> None:
    changes: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"instance": "n1:9306"}, {"instance": "n1:9307"}),
        ({"instance": "n1:9306", "pod": "a-1"}, {"instance": "n1:9306", "pod": "b-2"}),
        ({"instance": "n1:9306"}, {"instance": "n1.cluster.example:9306"}),
        ({"instance": "n1:9306", "job": "old"}, {"instance": "n1:9306", "job": "new", "env": "prod"}),
        ({"instance": "n1:9306", "user": "a"}, {"instance": "n1:9306", "user": "ann"}),
    ]
    for variant in VARIANTS:
        rng = random.Random(variant)
        preset, memory = rng.choice(list(PRESETS)), Memory()
        before, after = rng.choice(changes)
        at, gap_s = START + rng.uniform(0.2, 0.8) * LIFE_S, rng.choice([0.0, 5.0, 90.0])
        phases = (rng.uniform(0.0, 15.0), rng.uniform(0.0, 15.0))
        engine.series.clear()
        for labels, phase, span in ((before, phases[0], (START, at)), (after, phases[1], (at + gap_s, END))):
            host = {"hostname": labels["instance"].partition(":")[0]}
            add_job(engine, preset, Exporter(labels | host, phase, rng.choice([15.0, 30.0]), [span]), memory)
        check_job(measured(engine, preset), memory, variant=(variant, preset, after))


def test_hosts_of_one_short_name_in_two_domains_are_told_apart_or_unknown(engine: Engine) -> None:
    for variant in VARIANTS:
        rng = random.Random(variant)
        preset, memory = rng.choice(list(PRESETS)), Memory()
        node = rng.choice(["n1", "n1.a.example"])
        engine.series.clear()
        for domain, factor in (("a", 1.0), ("b", 5.0)):
            host = f"n1.{domain}.example"
            labels = {"instance": f"{host}:9306", "hostname": host}
            add_job(engine, preset, Exporter(labels, rng.uniform(0.0, 20.0)), memory, factor)
        found = measured(engine, preset, node)
        if node == "n1":
            assert found.nodes == {}
            assert "n1.a.example and n1.b.example are two hosts" in found.refused["memory_bytes"]
        else:
            check_job(found, memory, node, (variant, preset))


def test_an_only_node_under_another_name_is_used_if_it_is_the_only_one(engine: Engine) -> None:
    memory = Memory()
    add_job(engine, "jobstats", Exporter({"instance": "10.0.0.9:9306"}), memory)
    check_job(measured(engine, "jobstats"), memory)
    add_job(engine, "jobstats", Exporter({"instance": "10.0.0.10:9306"}), memory)
    assert measured(engine, "jobstats").nodes == {}
    engine.series.clear()  # an exporter's container that began again has another address
    for address, span in (("10.0.0.9", (START, START + 3000.0)), ("10.0.0.10", (START + 3050.0, END))):
        add_job(engine, "jobstats", Exporter({"instance": f"{address}:9306"}, spans=[span]), memory)
    check_job(measured(engine, "jobstats"), memory)


@pytest.mark.parametrize("version", ["v1", "v2", "v2 before 2024"])
@pytest.mark.parametrize("has_used", [True, False])
@pytest.mark.parametrize("has_shared", [True, False])
def test_memory_is_right_or_marked_whatever_the_cgroup_version(
    engine: Engine, version: str, has_used: bool, has_shared: bool
) -> None:
    """cgroup_exporter and its fork, with varying page cache and shared memory; 20 of each of 12 kinds."""
    for variant in range(20):
        rng = random.Random(variant)
        memory = Memory(
            rng.choice([0.1, 2.0, 20.0]) * GIB, rng.choice([0.0, 12.0]) * GIB, rng.choice([0.0, 0.03, 60.0]) * GIB
        )
        path = "/slurm/uid_1/job_7" if version == "v1" else "/system.slice/slurmstepd.scope/job_7"
        labels = {"cgroup": path, "instance": "n1:9306"}
        exporter = Exporter({}, interval_s=rng.choice([15.0, 60.0]))
        cache = memory.file + memory.shared
        names = {"rss": memory.anonymous + (cache if version == "v2" else 0.0), "cache": cache}
        names |= {"used": 1.01 * (memory.anonymous + cache)} if has_used else {}
        names |= {"shmem": memory.shared} if has_shared else {}
        engine.series.clear()
        add(engine, "cgroup_cpu_total_seconds", labels, exporter.points(cpu))
        for name, amount in names.items():
            add(engine, f"cgroup_memory_{name}_bytes", labels, exporter.points(memory.of(amount)))
        found = measured(engine, "cgroup_exporter")
        if version == "v2 before 2024":  # looks like v2: less than all, and marked where there is page cache
            group = not_none(cgroup_of(found.nodes["n1"]))
            assert np.nanmax(group.used) <= 1.02 * memory.peak
        else:
            check_job(found, memory, variant=(variant, version, memory))
        if cache > 0.1 * memory.anonymous and not has_shared:
            assert "shared memory" in found.too_low["memory_bytes"]


def test_shared_memory_is_measured_or_its_lack_is_marked(engine: Engine) -> None:
    for variant in VARIANTS:
        rng = random.Random(variant)
        preset = rng.choice(["jobstats", "slurm_job_exporter", "ceems"])
        memory = Memory(
            rng.choice([0.5, 1.0, 8.0]) * GIB, rng.choice([0.0, 0.1, 12.0]) * GIB, rng.choice([0.0, 3.0]) * GIB
        )
        exporter = Exporter({"instance": "n1:9306", "hostname": "n1"}, rng.uniform(0.0, 14.0))
        engine.series.clear()
        add_job(engine, preset, exporter, memory)
        found = measured(engine, preset)
        check_job(found, memory, variant=(variant, preset, memory))
        is_close = memory.shared + memory.file <= 0.02 * memory.anonymous
        assert ("memory_bytes" in found.too_low) is (preset != "jobstats" and not is_close)
        if preset == "jobstats":
            cache = found.nodes["n1"]["cache_bytes"][0].value.max()
            assert cache == pytest.approx(memory.file, rel=0.02, abs=1.0)


def test_a_gpu_is_its_index_or_uuid_and_holds_nothing_once_it_has_ended(engine: Engine) -> None:
    for variant in VARIANTS:
        rng = random.Random(variant)
        preset, name = rng.choice(
            [
                ("slurm_job_exporter", "slurm_job_memory_usage_gpu"),
                ("jobstats", "nvidia_gpu_memory_used_bytes"),
                ("dcgm", "DCGM_FI_DEV_FB_USED"),
            ]
        )
        gpus, scale = rng.choice([1, 2, 4]), 2.0**20 if preset == "dcgm" else 1.0
        of_job = {"dcgm": {"hpc_job": "7", "Hostname": "n1"}}.get(preset) or PRESETS[preset][0]
        is_renamed, is_handed_over = rng.random() < 0.5, rng.random() < 0.5
        middle = START + rng.uniform(0.3, 0.7) * LIFE_S
        engine.series.clear()
        for gpu in range(gpus):
            own = (
                rng.choice([{"gpu": str(gpu)}, {"gpu": str(gpu), "uuid": f"GPU-{gpu}"}])
                if variant % 2
                else {"gpu": str(gpu)}
            )
            # With a hand-over the first half of the GPUs ends when the others begin.
            halves = [(START, middle), (middle, END)]
            spans_of = halves if is_renamed else [(START, END)]
            if is_handed_over and gpus > 1:
                spans_of = [halves[gpu % 2]]
            for number, span in enumerate(spans_of):
                labels = {**of_job, "instance": "n1:9798", **own, "gpu_type": f"A100 {number}"}
                points = Exporter({}, 1.0, 15.0, [span]).points(lambda _, scale=scale: 40 * GIB / scale)  # type: ignore[misc]
                add(engine, name, labels, points)
        at_once = math.ceil(gpus / 2) if is_handed_over and gpus > 1 else gpus
        found = gpus_of(measured(engine, preset).nodes, START, END, gpus)
        assert found["gpu_memory"].value == pytest.approx(40 * GIB * at_once, rel=0.02), (variant, preset, gpus)


def test_replicas_that_see_bursts_of_a_gpu_do_not_contradict_one_another(engine: Engine) -> None:
    """One of them always between two bursts."""
    for replica, busy in (("a", 100.0), ("b", 0.0)):
        labels = {**PRESETS["slurm_job_exporter"][0], "instance": "n1:9798", "replica": replica, "gpu": "0"}
        add(engine, "slurm_job_utilization_gpu", labels, Exporter({}, 1.0 if busy else 8.0).points(lambda _, b=busy: b))  # type: ignore[misc]
    (series,) = measured(engine, "slurm_job_exporter").nodes["n1"]["gpus_busy"]
    assert (series.value.min(), series.value.max()) == (0.0, 1.0)


@pytest.mark.parametrize("blank", [2.0**31 - 16, 9223372036854775792.0, -1.0])
def test_values_that_say_unknown_are_none(engine: Engine, blank: float) -> None:
    labels, exporter = {"hpc_job": "7", "Hostname": "n1", "UUID": "GPU-0", "gpu": "0"}, Exporter({}, 1.0, 15.0)
    for name, value in (("FB_USED", 1024.0), ("GPU_UTIL", 50.0), ("FB_TOTAL", 81920.0)):
        points = exporter.points(lambda _, value=value: value)  # type: ignore[misc]
        points[5] = (points[5][0], blank)
        add(engine, f"DCGM_FI_DEV_{name}", labels, points)
    found = gpus_of(measured(engine, "dcgm").nodes, START, END, 1)
    assert (found["gpu_memory"].value, found["gpu_utilisation"].value) == (GIB, 0.5)
    assert found["gpu_utilisation"].mean == pytest.approx(0.5)
    assert [one.memory_total_bytes for one in found["gpu_utilisation"].gpus or ()] == [80 * GIB]


@pytest.mark.parametrize("metric", ["nvidia_gpu_memory_used_bytes", "nvidia_gpu_duty_cycle"])
def test_a_gpu_with_its_uuid_on_one_metric_alone_is_one(engine: Engine, metric: str) -> None:
    for node in ("n1", "n2"):
        for gpu in "01":
            labels = {"jobid": "7", "instance": f"{node}:9445", "minor_number": gpu}
            for name, value in (("nvidia_gpu_memory_used_bytes", GIB), ("nvidia_gpu_duty_cycle", 50.0)):
                own = {"uuid": f"GPU-{node}-{gpu}"} if name == metric else {}
                points = Exporter({}).points(lambda _, value=value: value)  # type: ignore[misc]
                add(engine, name, labels | own, points)
    found = gpus_of(measured(engine, "jobstats", "n1", "n2").nodes, START, END, 4)
    assert [one.gpu for one in found["gpu_memory"].gpus or ()] == ["n1/0", "n1/1", "n2/0", "n2/1"]
    assert (found["gpu_memory"].value, found["gpu_utilisation"].mean) == (4 * GIB, pytest.approx(2.0))


@pytest.mark.parametrize("preset", ["dcgm", "slurm_job_exporter"])
def test_a_slice_is_a_gpu_of_its_own_and_its_parent_none(engine: Engine, preset: str) -> None:
    """The parent may have series of memory, of use or of both; there are whole GPUs too."""
    for variant in VARIANTS:
        rng = random.Random(variant)
        engine.series.clear()
        uuid_of = rng.choice(["UUID", "uuid", "gpu_uuid"])
        part_of = rng.choice(["GPU_I_ID", "gpu_instance_id"])
        cut, whole, slices = rng.choice([1, 2]), rng.choice([0, 1]), rng.choice([1, 2, 7])
        found: list[tuple[dict[str, str], bool, float]] = []  # labels, whether it is a parent, and its use
        for gpu in range(cut + whole):
            of_gpu = {uuid_of: f"GPU-{gpu}", "gpu": str(gpu), "gpu_type": "A100"}
            if gpu >= cut or rng.random() < 0.7:
                found.append((of_gpu, gpu < cut, 0.9))
            if gpu < cut and preset == "dcgm":
                profile = {"GPU_I_PROFILE": "1g.10gb"}
                found += [({**of_gpu, part_of: str(part), **profile}, False, rng.random()) for part in range(slices)]
            elif gpu < cut:  # named by a UUID of their own, without a parent
                found = [one for one in found if not one[1]]
                found += [({"gpu": f"MIG-{gpu}-{part}"}, False, rng.random()) for part in range(slices)]
        rng.shuffle(found)
        exporter = Exporter({"instance": "n1:9400", "Hostname": "n1"}, rng.uniform(0.0, 14.0), 15.0)
        of_job = {"hpc_job": "7"} if preset == "dcgm" else PRESETS["slurm_job_exporter"][0]
        names = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
        scales = (2.0**20, 0.01, 1.0)
        if preset != "dcgm":
            names, scales = ("slurm_job_memory_usage_gpu", "slurm_job_utilization_gpu", ""), (1.0, 0.01, 1.0)
        for labels, is_parent, use in found:
            has_use = names[1] if preset != "dcgm" or not any(name in labels for name in (part_of,)) else names[2]
            for name, amount in ((names[0], 5 * GIB), (has_use, use)):
                if is_parent and rng.random() < 0.3:
                    continue
                value = amount / scales[names.index(name)]
                points = exporter.points(lambda _, value=value: value)  # type: ignore[misc]
                add(engine, name, {**of_job, **exporter.labels, **labels}, points)
        own = [(labels, use) for labels, is_parent, use in found if not is_parent]
        gpus = gpus_of(measured(engine, preset).nodes, START, END, len(own))
        assert gpus["gpu_memory"].value == pytest.approx(5 * GIB * len(own)), variant
        assert gpus["gpu_utilisation"].mean == pytest.approx(sum(use for _, use in own)), variant
        assert len(gpus["gpu_utilisation"].gpus or ()) == len(own), variant


@pytest.mark.parametrize("part", [{"GPU_I_ID": "3"}, {"UUID": "MIG-7"}, {}])
@pytest.mark.parametrize("has_engine", [True, False])
def test_utilisation_of_a_slice_is_its_engines_or_unknown(
    engine: Engine, part: dict[str, str], has_engine: bool
) -> None:
    """GPU_UTIL is 0 for a slice, whatever it does."""
    labels, exporter = {"hpc_job": "7", "Hostname": "n1", "UUID": "GPU-0", "gpu": "0"} | part, Exporter({}, 1.0, 15.0)
    of_metrics = {"DEV_FB_USED": 1024.0, "DEV_GPU_UTIL": 0.0} | ({"PROF_GR_ENGINE_ACTIVE": 0.9} if has_engine else {})
    for name, value in of_metrics.items():
        add(engine, f"DCGM_FI_{name}", labels, exporter.points(lambda _, value=value: value))  # type: ignore[misc]
    found = gpus_of(measured(engine, "dcgm").nodes, START, END, 1)
    busy = found["gpu_utilisation"].mean if "gpu_utilisation" in found else None
    assert busy == (0.0 if not part else pytest.approx(0.9) if has_engine else None)
    assert found["gpu_memory"].value == GIB


@pytest.mark.parametrize(("used_mib", "known"), [(32_500.0, True), (45_000.0, False)])
def test_gpu_memory_above_the_cards_is_unknown(engine: Engine, used_mib: float, known: bool) -> None:
    labels, exporter = {"hpc_job": "7", "Hostname": "n1", "UUID": "GPU-0"}, Exporter({}, 1.0, 15.0)
    for name, value in (("FB_USED", used_mib), ("GPU_UTIL", 50.0), ("FB_TOTAL", 32_000.0)):
        add(engine, f"DCGM_FI_DEV_{name}", labels, exporter.points(lambda _, value=value: value))  # type: ignore[misc]
    found = gpus_of(measured(engine, "dcgm").nodes, START, END, 1)
    assert ("gpu_memory" in found) == known
    assert found["gpu_utilisation"].value == 0.5


@pytest.mark.parametrize(("busy", "expected"), [(None, 0.5), (20.0, 0.2)])
def test_the_second_preset_answers_where_the_first_has_no_series(
    engine: Engine, busy: float | None, expected: float
) -> None:
    exporter = Exporter({}, 1.0, 15.0)
    first = {"jobid": "7", "step": "", "task": "", "instance": "n1:9445", "uuid": "GPU-0", "minor_number": "0"}
    second = {"hpc_job": "7", "Hostname": "n1", "UUID": "GPU-0", "gpu": "0"}
    series = [("nvidia_gpu_memory_used_bytes", first, GIB), ("DCGM_FI_DEV_GPU_UTIL", second, 50.0)]
    for name, labels, value in [*series, *([] if busy is None else [("nvidia_gpu_duty_cycle", first, busy)])]:
        add(engine, name, labels, exporter.points(lambda _, value=value: value))  # type: ignore[misc]
    found = gpus_of(measured(engine, "", presets=("jobstats", "dcgm")).nodes, START, END, 1)
    assert (found["gpu_memory"].value, found["gpu_utilisation"].mean) == (GIB, pytest.approx(expected))
    assert len(found["gpu_utilisation"].gpus or ()) == 1


def bursts(rng: random.Random) -> Curve:
    """A counter of bytes that rises unevenly."""
    steps = [rng.choice([1e5, 3e7, 2e8]) * rng.random() for _ in range(int(LIFE_S) // 10 + 200)]
    totals = list(accumulate(steps))

    def counter(at: float) -> float:
        number = int((at - START + 600.0) // 10.0)
        return totals[number] + ((at - START + 600.0) / 10.0 - number) * steps[number + 1]

    return counter


def times(share: float, *curves: Curve) -> Curve:
    """A share of several curves together."""
    return lambda at: share * sum(curve(at) for curve in curves)


KNOWN = ("vmbr0", "lxdbr0", "ovs-system", "br-ex", "virbr0", "docker0", "veth3a", "tap0", "bond0", "eth0.100", "fwbr1")


def test_bridges_and_vlans_are_counted_with_their_card_once(engine: Engine) -> None:
    for variant in VARIANTS:
        rng = random.Random(variant)
        cards = {f"eno{number}": (bursts(rng), bursts(rng)) for number in range(rng.choice([1, 1, 2]))}
        devices = dict(cards)
        unknown = rng.random() < 0.5
        for name in [*rng.sample(KNOWN, 2), *(["storage"] if unknown and len(cards) == 1 else [])]:
            ways = cards["eno0"] if name != "storage" or rng.random() < 0.7 else cards["eno0"][::-1]
            share = rng.choice([1.0, 0.99, 0.93])  # without headers
            devices[name] = (times(share, ways[0]), times(share, ways[1]))
        if unknown and len(cards) == 2:  # a bond under a name of its own
            devices["lag"] = (
                times(1.0, *(one for one, _ in cards.values())),
                times(1.0, *(o for _, o in cards.values())),
            )
        exporter = Exporter({"instance": "n1:9100"}, rng.uniform(0.0, 14.0), 15.0)
        engine.series.clear()
        for device, ways in devices.items():
            for direction, way in zip(("receive", "transmit"), ways, strict=True):
                labels = {**exporter.labels, "device": device}
                add(engine, f"node_network_{direction}_bytes_total", labels, exporter.points(way))
        found = measured(engine, "node_exporter")
        assert set(found.too_low) == ({"node_received_bytes", "node_sent_bytes"} if unknown else set()), variant
        readings, _ = readings_of_node(found.nodes["n1"])
        assert readings is not None
        for number, total in enumerate((readings.net_in_bytes, readings.net_out_bytes)):
            true = sum(ways[number](readings.time[-1]) - ways[number](readings.time[0]) for ways in cards.values())
            assert total[-1] - total[0] == pytest.approx(true, rel=0.02), variant


def test_devices_that_a_site_names_are_all_counted(engine: Engine) -> None:
    way = bursts(random.Random(1))
    for device in ("rail0", "rail1", "eno1", "vmbr0"):
        for direction in ("receive", "transmit"):
            labels = {"instance": "n1:9100", "device": device}
            add(engine, f"node_network_{direction}_bytes_total", labels, Exporter({}).points(way))
    found = measured(engine, "node_exporter", devices="rail[01]|vmbr0")
    assert found.too_low == {}
    assert len(found.nodes["n1"]["node_received_bytes"]) == 3


def test_traffic_of_all_protocols_is_added_up_within_a_scrape(engine: Engine) -> None:
    for variant in VARIANTS:
        rng = random.Random(variant)
        engine.series.clear()
        flows = rng.sample(
            [(proto, family) for proto in ("tcp", "udp") for family in ("ipv4", "ipv6")], rng.randrange(1, 5)
        )
        for replica in range(rng.choice([1, 2])):
            exporter = Exporter({"hostname": "n1", "replica": str(replica)}, 1.0 + 7.0 * replica)
            for number, (proto, family) in enumerate(flows):
                begin = START + (600.0 * number if variant % 2 else 0.0)  # a flow's counter appears with its first byte
                points = [(at, 1e6 * (at - begin)) for at, _ in exporter.points(cpu) if at > begin]
                for name in ("ingress", "egress"):
                    labels = {"uuid": "7", **exporter.labels, "proto": proto, "family": family}
                    add(engine, f"ceems_ebpf_{name}_bytes_total", labels, points)
        readings = not_none(traffic_of(measured(engine, "ceems").nodes["n1"], START))
        begins = [START + (600.0 * number if variant % 2 else 0.0) for number in range(len(flows))]
        true = sum(1e6 * (readings.time[-1] - begin) for begin in begins)
        assert readings.net_in_bytes[-1] - readings.net_in_bytes[0] == pytest.approx(true, rel=0.02), variant
        assert readings.gap_s[-1] == 0.0


def test_a_scrape_that_took_long_is_no_reset(engine: Engine) -> None:
    """A replica's value is slightly later than its time."""
    memory = Memory()
    # The second one fills in an outage of the first.
    up = [(START, START + 0.4 * LIFE_S), (START + 0.5 * LIFE_S, END)], [(START, END - 60.0)]
    for replica, late_s in enumerate((0.0, 12.0)):
        labels = {"instance": "n1:9306", "replica": str(replica)}
        exporter = Exporter(labels, 1.0 + 6.0 * replica, 15.0, up[replica])
        points = [(at, cpu(at + late_s)) for at, _ in exporter.points(cpu)]
        add(engine, "cgroup_cpu_total_seconds", {**PRESETS["jobstats"][0], **exporter.labels}, points)
    for name in ("rss", "shmem"):
        labels = {**PRESETS["jobstats"][0], "instance": "n1:9306"}
        add(
            engine,
            f"cgroup_memory_{name}_bytes",
            labels,
            Exporter({}).points(memory.of(memory.peak if name == "rss" else 0.0)),
        )
    check_job(measured(engine, "jobstats"), memory)


def test_processors_of_a_wide_job_are_added_up_by_the_server(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, nodes = Memory(), ["n1", "n2"]
    for node in nodes:
        for replica in ("a", "b"):
            add_job(engine, "slurm_job_exporter", Exporter({"instance": f"{node}:9798", "replica": replica}), memory)
    monkeypatch.setattr(prometheus, "_MOST_BYTES", 100_000)
    found = measured(engine, "slurm_job_exporter", *nodes)
    assert any("sum without (core)" in asked["query"] for asked in engine.asked)
    for node in nodes:
        check_job(found, memory, node)


def test_a_partial_answer_is_waited_for(engine: Engine) -> None:
    memory = Memory()
    add_job(engine, "jobstats", Exporter({"instance": "n1:9306"}), memory)
    of_thanos = {"warnings": ["receive series from Addr: store-1: rpc error: code = Unavailable"]}
    for engine.extra in (of_thanos, {"isPartial": True}):
        with pytest.raises(NoAnswerError, match="a part of its storage does not answer"):
            measured(engine, "jobstats")
    engine.extra = {"warnings": ["PromQL warning: encountered a mix of histograms and floats"]}
    check_job(measured(engine, "jobstats"), memory)
    engine.extra, engine.status = {"error": "expanding series: rpc error: code = Unavailable"}, 422
    with pytest.raises(NoAnswerError, match="rpc error"):
        measured(engine, "jobstats")
