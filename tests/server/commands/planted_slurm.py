"""A month of 2,000 Slurm jobs as text of sacct, with seven planted findings among users whose requests fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from jobsight_server.accounting.parsers.slurm.sacct_text import COLUMNS

BEGIN, DAYS, JOBS, OTHERS = 1_793_491_200, 28, 2000, 40  # 2026-11-01
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Plant:
    """Jobs of one user's application: requests of memory (a node's) and time, and use from ``least`` to ``most``.

    ``busy``: processors in use; ``gpu_busy``: the largest use of a GPU in percent.
    """

    user: str
    application: str
    jobs: int
    processors: int
    memory_gib: float
    limit_h: float
    least_gib: float
    most_gib: float
    least_h: float
    most_h: float
    busy: float
    nodes: int = 1
    gpus: int = 0
    gpu_busy: float = 0.0


PLANTED = (
    Plant("greedy", "assembly", 60, 16, 64, 12, 8, 9.5, 5, 7, 15),
    Plant("wide", "ocean", 40, 64, 100, 12, 12, 15, 4, 6, 60, nodes=4),
    Plant("late", "climate", 60, 16, 16, 4, 12, 13, 2, 5.5, 15),
    Plant("tight", "align", 50, 8, 8, 8, 6, 9, 2, 3, 7),
    Plant("gina", "train", 40, 8, 32, 12, 25, 27, 6, 8, 6, gpus=4, gpu_busy=1.0),
    Plant("serial", "mcmc", 50, 32, 12, 12, 9, 10, 4, 6, 1.0),
    Plant("ghost", "mpi", 20, 64, 16, 12, 13, 14, 5, 7, 0.001),
)
"""What to find: memory of one node and of four, kills at the time limit and for memory, idle GPUs, idle processors, and
processes that the batch system does not see."""


def text_of_sacct(seed: int = 1, jobs: int = JOBS, others: int = OTHERS) -> str:
    """Return ``jobs`` jobs of the planted users and ``others`` more, in the order of their ids."""
    random = Random(seed)
    plants = [plant for plant in PLANTED for _ in range(plant.jobs)]
    ordinary = [_ordinary(number, random.choice((1, 4, 16)), random.randint(4, 32)) for number in range(others)]
    plants += random.choices(ordinary, k=jobs - len(plants))
    submits = sorted(BEGIN + random.random() * DAYS * 86_400 for _ in plants)
    random.shuffle(plants)
    lines = ["\x1f".join(COLUMNS)]
    for number, (plant, submit) in enumerate(zip(plants, submits, strict=True), 1000):
        lines += _rows(plant, number, int(submit), random)
    return "\n".join([*lines, ""])


def _ordinary(number: int, processors: int, gib: int) -> Plant:
    """Return jobs whose requests fit; those of one user keep a GPU busy."""
    user, application, gpus = f"user{number:02}", f"app{number:02}", int(number == 7)
    return Plant(
        user,
        application,
        1,
        processors,
        gib,
        8,
        gib * 0.8,
        gib * 0.93,
        1,
        5,
        processors * 0.93,
        gpus=gpus,
        gpu_busy=95.0,
    )


def _rows(plant: Plant, number: int, submit: int, random: Random) -> Iterator[str]:
    gib, hours = random.uniform(plant.least_gib, plant.most_gib), random.uniform(plant.least_h, plant.most_h)
    state, code = "COMPLETED", "0:0"
    if gib > plant.memory_gib:
        state, code, gib, hours = "OUT_OF_MEMORY", "0:125", plant.memory_gib, hours * 0.8
    if hours > plant.limit_h:
        state, code, hours = "TIMEOUT", "0:0", plant.limit_h
    start = submit + 600
    end = start + int(hours * 3600)
    held = {"cpu": plant.processors, "mem": f"{plant.memory_gib * plant.nodes * 1024:.0f}M", "node": plant.nodes}
    held |= {"gres/gpu": plant.gpus} if plant.gpus else {}
    tasks, cpu_s = plant.nodes, int(plant.busy * (end - start))
    memory = {"TRESUsageInTot": gib * tasks, "TRESUsageInMax": gib, "TRESUsageInMin": gib}
    gpus = {"gres/gpuutil": plant.gpu_busy * plant.gpus} if plant.gpus else {}
    used = {
        column: ",".join([f"mem={amount * GIB / 1024:.0f}K", *(f"{name}={value:g}" for name, value in gpus.items())])
        for column, amount in memory.items()
    }
    tres = ",".join(f"{name}={value}" for name, value in held.items())
    clock = f"{cpu_s // 3600:02}:{cpu_s // 60 % 60:02}:{cpu_s % 60:02}"
    job = {
        "JobIDRaw": number, "JobID": number, "User": plant.user, "UID": 1000, "Group": "lab", "Account": "lab",
        "Partition": "batch", "JobName": plant.application, "State": state, "ExitCode": code, "DerivedExitCode": "0:0",
        "Submit": submit, "Eligible": submit, "Start": start, "End": end, "TimelimitRaw": int(plant.limit_h * 60),
        "ReqMem": f"{plant.memory_gib * 1024:.0f}M", "ReqTRES": tres, "AllocTRES": tres, "AllocCPUS": plant.processors,
        "NNodes": plant.nodes, "NodeList": f"n[1-{plant.nodes}]" if plant.nodes > 1 else "n1", "TotalCPU": clock,
    }  # fmt: skip
    step = job | {"JobIDRaw": f"{number}.0", "JobID": f"{number}.0", "NTasks": tasks} | used
    for row in (job, step):
        yield "\x1f".join(str(row.get(column, "")) for column in COLUMNS)
