"""Resident memory and address space are two kinds: of TORQUE, PBS and Grid Engine, each is compared with its own."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from jobsight_server.accounting.parsers import PARSERS
from jobsight_server.accounting.parsers.qstat_json import entries as json_entries
from jobsight_server.accounting.parsers.qstat_xml import entries as xml_entries
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.accounting.runs import RunRecord
from jobsight_server.advice.ask_lines import lines_to_ask
from jobsight_server.advice.recommendation import recommend_as_last, sentence
from jobsight_server.advice.such_jobs import last_runs
from jobsight_server.forecasts.reader import AnswerReader
from jobsight_server.forecasts.request import ForecastConfig
from jobsight_server.profiler.run import profile_finished
from jobsight_server.storage.schema import profiles

T0 = 1_790_000_000
MB = 2**20
UNITS = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "w": 8, "": 1, "KB": 2**10, "MB": 2**20}
VARIANTS = range(60)


def size(rng: random.Random, value: int) -> str:
    """A whole number of MiB as the server writes it in one of its units."""
    unit = rng.choice([unit for unit, factor in UNITS.items() if value % factor == 0])
    return f"{value // UNITS[unit]}{unit}"


def pbs_line(scheduler: str, number: int, fields: dict[str, str], start: int = T0, length: int = 3600) -> str:
    """An E record with these fields of Resource_List and resources_used, among others."""
    own = "owner=ann@srv" if scheduler == "torque" else "project=_pbs_project_default"
    given = " ".join(f"{key}={value}" for key, value in fields.items())
    return (
        f"09/21/2026 14:13:20;E;{number}.srv;user=ann group=g jobname=app queue=q ctime={start - 5} qtime={start - 5} "
        f"etime={start - 5} start={start} {own} {given} session=5 end={start + length} Exit_status=0 "
        "resources_used.cput=00:30:00 resources_used.walltime=01:00:00"
    )


def run_of(scheduler: str, line: str) -> RunRecord:
    event = PARSERS[scheduler](line)
    assert event.run is not None
    return event.run


@pytest.mark.parametrize("seed", VARIANTS)
@pytest.mark.parametrize("scheduler", ["torque", "pbspro"])
def test_requested_and_used_memory_are_of_one_kind(scheduler: str, seed: int) -> None:
    rng = random.Random(seed)
    nodes, ppn = rng.randrange(1, 4), rng.randrange(1, 9)
    words = rng.choice([[], ["mem"], ["pmem"], ["vmem"], ["pvmem"], ["mem", "vmem"], ["pmem", "pvmem"]])
    asked = {word: rng.randrange(1, 40) * 256 * MB for word in words}
    used = {word: rng.randrange(1, 40) * 64 * MB for word in rng.choice([["mem", "vmem"], ["vmem", "mem"], ["mem"]])}
    fields = {f"Resource_List.{word}": size(rng, value) for word, value in asked.items()}
    fields |= {f"resources_used.{word}": size(rng, value) for word, value in used.items()}
    fields |= {"exec_host": "+".join(f"n{n}/0-{ppn - 1}" if ppn > 1 else f"n{n}/0" for n in range(nodes))}
    if rng.random() < 0.3:  # TORQUE without exec_host
        del fields["exec_host"]
        fields |= {"Resource_List.ncpus": "1", "Resource_List.nodes": f"{nodes}:ppn={ppn}"}
    run = run_of(scheduler, pbs_line(scheduler, 1, dict(rng.sample(list(fields.items()), len(fields)))))
    whole = {word: value * (nodes * ppn if word.startswith("p") else 1) for word, value in asked.items()}
    resident, virtual = (
        next((whole[w] for w in kind if w in whole), None) for kind in (("mem", "pmem"), ("vmem", "pvmem"))
    )
    is_virtual = virtual is not None and (resident is None or ("vmem" in used and "mem" not in used))
    assert run.processors == nodes * ppn
    assert run.memory_is_virtual == is_virtual
    pair = (virtual, used.get("vmem")), (resident, used.get("mem"))
    first, other = pair if is_virtual else pair[::-1]
    assert (run.requested_memory_bytes, run.used_memory_bytes) == first
    assert (run.other_requested_bytes, run.other_used_bytes) == other
    assert run.memory_word == next((word for word in words if word.endswith("vmem") == is_virtual), None)


@pytest.mark.parametrize("seed", VARIANTS)
def test_grid_engine_has_the_same_form(seed: int) -> None:
    rng = random.Random(seed)
    slots, virtual, resident = rng.randrange(1, 9), rng.randrange(1, 99) * MB, rng.randrange(1, 99) * MB
    words = rng.choice(
        [[], ["h_vmem"], ["mem_free"], ["h_vmem", "mem_free"], ["m_mem_free"], ["virtual_free"], ["h_rss"]]
    )
    asked = {word: rng.randrange(1, 9) for word in words}
    category = "-l " + ",".join(f"{word}={gib}G" for word, gib in asked.items()) if words else "NONE"
    has_resident = rng.random() < 0.5
    further = f":0:{rng.randrange(9)}:{resident}.0:0" if has_resident else ""
    line = (
        f"all.q:n1:g:ann:app:7:sge:0:{T0}:{T0}:{T0 + 60}:0:0:60:50:1:4096:{'0:' * 14}NONE:d:NONE:{slots}:0:52:1:0:"
        f"{category}:0:NONE:{virtual}.0:0:0{further}"
    )
    run = run_of("gridengine", line)
    of_virtual = next((asked[word] for word in ("h_vmem", "virtual_free") if word in asked), None)
    of_resident = next((asked[word] for word in ("m_mem_free", "h_rss", "mem_free") if word in asked), None)
    is_virtual = of_virtual is not None or of_resident is None
    assert run.memory_is_virtual is is_virtual
    pair = (of_virtual, virtual), (of_resident, resident if has_resident else None)
    (first, used), (other, other_used) = pair if is_virtual else pair[::-1]
    assert (run.requested_memory_bytes, run.used_memory_bytes) == (first and first * slots * 2**30, used)
    assert (run.other_requested_bytes, run.other_used_bytes) == (other and other * slots * 2**30, other_used)


@pytest.mark.parametrize("seed", VARIANTS)
def test_nodes_and_procs_of_waiting_jobs_come_before_the_default_ncpus(seed: int) -> None:
    rng = random.Random(seed)
    chunks = [
        (rng.randrange(1, 5), rng.randrange(1, 17), rng.choice(["", ":gpus=1", ":fast"]))
        for _ in range(rng.randrange(1, 3))
    ]
    named = [rng.choice([f"{n}:ppn={p}{more}", f"{n}{more}:ppn={p}"]) for n, p, more in chunks]
    wanted = sum(n * p for n, p, _ in chunks)
    asked = {"nodes": "+".join(named) + rng.choice(["", "#excl"])}
    if rng.random() < 0.3:
        wanted, asked = (
            chunks[0][1],
            rng.choice([{"procs": f"{chunks[0][1]}"}, {"procs": f"{chunks[0][1]}", "nodes": "1"}]),
        )
    word, each = rng.choice([("pmem", True), ("mem", False), ("pvmem", True), ("vmem", False)])
    asked |= {"ncpus": "1", "nodect": "1", word: "2gb", "walltime": "48:00:00"}
    fields = rng.sample(list(asked.items()), len(asked))
    resources = "".join(f"<{name}>{value}</{name}>" for name, value in fields)
    job = (
        f"<Data><Job><Job_Id>500.srv</Job_Id><Job_Name>x</Job_Name><Job_Owner>ann@srv</Job_Owner><job_state>Q</job_state>"
        f"<ctime>{T0}</ctime><qtime>{T0}</qtime><Resource_List>{resources}</Resource_List></Job></Data>"
    )
    of_pbs = {"job_state": "Q", "Job_Owner": "ann@srv", "qtime": f"{T0}", "Resource_List": dict(fields)}
    document = json.dumps({"pbs_server": "srv", "Jobs": {"500.srv": of_pbs}})
    for (listed,) in (xml_entries(job.encode()), json_entries(document.encode())):
        assert listed.event is not None
        run = listed.event.run
        assert run is not None
        assert run.processors == wanted
        assert run.requested_memory_bytes == 2**31 * (wanted if each else 1)
        assert (run.memory_word, run.memory_is_virtual) == (word, "v" in word)


@pytest.mark.parametrize("seed", VARIANTS)
def test_processors_of_pbs_pro_without_those_of_exec_host(seed: int) -> None:
    rng = random.Random(seed)
    hosts, each = rng.randrange(1, 4), rng.randrange(1, 5) * 8
    vnodes = rng.randrange(1, 3)
    with_counts = rng.random() < 0.7 or hosts > 1
    parts = []
    for host in range(hosts):
        own = [
            f"n{host}[{v}]{':ngpus=2' * rng.randrange(2)}{f':ncpus={each // vnodes}' * with_counts}:mem=9kb"
            for v in range(vnodes)
        ]
        parts.append("+".join(own))
    fields = {
        "exec_host": "+".join(f"n{host}/{rng.randrange(9)}*0" for host in range(hosts)),
        "exec_vnode": f"({')+('.join(parts)})",
        "Resource_List.ncpus": f"{each * hosts}",
        "Resource_List.select": f"{hosts}:ncpus={each}:ngpus=2",
    }
    run = run_of("pbspro", pbs_line("pbspro", 1, dict(rng.sample(list(fields.items()), len(fields)))))
    assert run.processors == each * hosts
    assert dict(run.nodes) == {f"n{host}": each for host in range(hosts)}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("pvmem",), "#PBS -l pvmem="),
        (("vmem",), "#PBS -l vmem="),
        (("pmem",), "#PBS -l pmem="),
        (("mem",), "#PBS -l mem="),
        (("pvmem", "mem"), None),
    ],
)
def test_advice_is_in_the_word_of_the_request_or_there_is_none(
    sqlite_engine: Engine, tmp_path: Path, words: tuple[str, ...], line: str | None
) -> None:
    """Jobs that map 1,090 MB and hold 20 MB of it."""
    used = {"exec_host": "n1/0", "resources_used.mem": "20480kb", "resources_used.vmem": f"{1090 * 1024}kb"}
    log = tmp_path / "20260921"
    log.write_text(
        "".join(
            pbs_line(
                "torque", number, used | {f"Resource_List.{words[number % len(words)]}": "4gb"}, T0 + 9000 * number
            )
            + "\n"
            for number in range(12)
        )
    )
    import_files(sqlite_engine, [log], "c", lambda: 1.8e9, "torque")
    profile_finished(sqlite_engine, 0.0, lambda: 1.8e9)
    with sqlite_engine.connect() as connection:
        runs = last_runs(connection, "c", "ann")
        found = recommend_as_last(connection, AnswerReader(sqlite_engine, ForecastConfig()), "c", "ann", runs[0])
        values = set(connection.scalars(select(profiles.c.value).where(profiles.c.metric == "memory")))
    virtual, resident = 1090 * MB, 20 * MB
    if line is None:
        assert (values, found.memory_bytes) == ({virtual, resident}, None)
        return
    is_virtual = "vmem" in line
    assert values == {virtual if is_virtual else resident}
    assert found.memory_bytes is not None
    assert (virtual if is_virtual else resident) <= found.memory_bytes < 2**31
    assert ("of virtual memory" in sentence(found)) == is_virtual
    (script,) = lines_to_ask(found, "pbs")
    assert script.text.startswith(line)
