"""AMD's GPUs read from a tree of ``/sys`` as their driver shows it, with damaged contents as well."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests import make
from tests.agent.collector import wait_for
from tests.agent.tree import Node

from jobsight_agent.reading import GpuReading, from_record, to_record
from jobsight_server.cli import main

GIB = 2**30
FINE = {"gpu_busy_percent": "37\n", "mem_info_vram_used": f"{12 * GIB}\n", "mem_info_vram_total": f"{64 * GIB}\n"}
WHOLE = GpuReading("card0", 37, 12 * GIB, 64 * GIB)


def add_card(node: Node, name: str, **changes: str | None) -> None:
    """Add a card; a file of None is a folder, whose reading fails like that of a driver's file with EINVAL."""
    for file, text in {**FINE, **changes}.items():
        path = f"sys/class/drm/{name}/device/{file}"
        if text is None:
            (node.root / path).mkdir(parents=True)
        else:
            node.write(path, text)


def test_each_card_is_read_in_order_and_nothing_else(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for number in (10, 2):
        add_card(node, f"card{number}")
    add_card(node, "card0-DP-1")
    add_card(node, "renderD128")
    node.write("sys/class/drm/card1/device/vendor", "0x1a03\n")  # the board's own graphics
    node.write("sys/class/drm/version", "drm 1.1.0\n")
    reading = node.read()
    assert reading.gpus == (replace(WHOLE, gpu="card2"), replace(WHOLE, gpu="card10"))
    assert reading.missed == ()
    assert from_record(to_record(reading)) == reading
    assert Node(tmp_path / "other").read().gpus == ()


WRONG = ("", "\n", "N/A\n", "-1\n", "-22\n", "0x25\n", "3.5\n", "1 2\n", "9" * 30, None)
FILES = {"gpu_busy_percent": "busy_percent", "mem_info_vram_used": "used_bytes", "mem_info_vram_total": "total_bytes"}


@pytest.mark.parametrize(
    ("changes", "found", "missed"),
    [
        ({"gpu_busy_percent": "0\n"}, {"busy_percent": 0}, ()),
        ({"gpu_busy_percent": "100\n"}, {"busy_percent": 100}, ()),
        ({"gpu_busy_percent": "101\n"}, {"busy_percent": None}, ("gpu",)),
        ({"mem_info_vram_used": f"{65 * GIB}\n"}, {"used_bytes": None}, ("gpu",)),  # of 64
        ({"mem_info_vram_total": "0\n"}, {"total_bytes": None}, ()),
        ({"mem_info_vram_total": f"{2**63}\n"}, {"total_bytes": None}, ("gpu",)),
        *(({file: wrong}, {FILES[file]: None}, ("gpu",)) for file in FILES for wrong in WRONG),
    ],
)
def test_a_damaged_file_or_a_value_that_cannot_be_is_missed_alone(
    tmp_path: Path, changes: dict[str, str | None], found: dict[str, int | None], missed: tuple[str, ...]
) -> None:
    node = Node(tmp_path)
    add_card(node, "card0", **changes)
    reading = node.read()
    assert (reading.gpus, reading.missed) == ((replace(WHOLE, **found),), missed)


def test_more_cards_than_a_batch_may_have_are_counted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for number in range(17):
        add_card(node, f"card{number}")
    reading = node.read()
    assert (len(reading.gpus), reading.missed) == (16, ("gpu",))


@pytest.mark.parametrize(
    "gpus",
    [
        [["card0", 101, 1, 1]], [["card0", -1, 1, 1]], [["card0", 1.5, 1, 1]], [["card0", 1, 2**63, 1]],
        [["", 1, 1, 1]],
        [["a\0", 1, 1, 1]], [["card0", 1, 1]], [["card0", 1, 1, 1]] * 2, "card0", [5], None,
        [[f"card{n}", 1, 1, 1] for n in range(17)],
    ],
)  # fmt: skip
def test_damaged_gpus_in_the_journal_are_refused(tmp_path: Path, gpus: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        from_record([*to_record(Node(tmp_path).read()), gpus])


RECORDS = """\
JobIDRaw|User|State|Submit|Start|End|AllocCPUS|NNodes|NodeList|AllocTRES|MaxRSS
7|ann|COMPLETED|{start}|{start}|{end}|2|1|n1|billing=2,cpu=2,gres/gpu=2,node=1|
7.batch||COMPLETED|{start}|{start}|{end}|2|1|n1|cpu=2,node=1|100M
"""


def test_the_gpus_of_a_job_by_a_real_agent_and_server(tmp_path: Path) -> None:
    node = Node(tmp_path / "node")
    add_card(node, "card0", gpu_busy_percent="60\n")
    add_card(node, "card1", gpu_busy_percent="0\n")
    site = make.site(tmp_path / "site")
    command = [
        sys.executable, "-m", "jobsight_agent.cli", "run", "--server", site.ingest_url, "--token-file",
        str(site.agent_token_file), "--spool", str(tmp_path / "spool"), "--interval", "1", "--batch-age-s", "2",
        "--node", "n1", "--cluster", "alpha", "--host-root", str(node.root),
    ]  # fmt: skip
    with site.serve(), contextlib.ExitStack() as stack:
        agent = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        stack.callback(agent.terminate)
        wait_for(lambda: list((tmp_path / "spool").glob("open-*.jsonl")))  # its first reading
        start = int(time.time()) + 1
        time.sleep(start + 8 - time.time())
        agent.terminate()
        assert agent.wait(60) == 0  # all is sent
        log = tmp_path / "sacct.txt"
        log.write_text(RECORDS.format(start=start, end=start + 6))
        assert main(["import", "slurm", str(log), "--cluster", "alpha", "--database", site.database]) == 0

        found = site.api("job", cluster="alpha", name="7")["runs"][0]
    assert (found["gpus"], found["gpus_busy"]) == (2, pytest.approx(0.3))
    assert found["gpu_use"] == [
        {"gpu": f"n1/{card}", "busy": pytest.approx(busy), "memory_bytes": 12 * GIB, "memory_total_bytes": 64 * GIB}
        for card, busy in (("card0", 0.6), ("card1", 0.0))
    ]
