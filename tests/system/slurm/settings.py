"""The configuration files of a Slurm that shares this machine with whatever else runs on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
NODE_CPUS = 16
NODE_MEMORY_MIB = 8000


@dataclass(frozen=True, slots=True)
class Places:
    """Where a cluster's daemons meet: nothing is where a Slurm of the machine's own would have it."""

    cluster: str
    host: str
    directory: Path
    munge_socket: Path
    controller_port: int
    database_port: int
    node_ports: Mapping[str, int]


def slurm_conf(places: Places, limited: bool, settings: Mapping[str, str]) -> str:
    """The text of slurm.conf; ``limited``: jobs are held in cgroups, ``settings`` come on top."""
    directory = places.directory
    values = {
        "ClusterName": places.cluster,
        "SlurmctldHost": places.host,
        "SlurmctldPort": str(places.controller_port),
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={places.munge_socket}",
        "StateSaveLocation": f"{directory}/state",
        "SlurmdSpoolDir": f"{directory}/spool.%n",
        "SlurmctldPidFile": f"{directory}/slurmctld.pid",
        "SlurmdPidFile": f"{directory}/slurmd.%n.pid",
        # Nodes have the processors and memory that stand here, whatever the machine has.
        "SlurmdParameters": "config_overrides",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        "SchedulerParameters": "sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "ProctrackType": "proctrack/cgroup" if limited else "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup" if limited else "task/none",
        "JobAcctGatherType": "jobacct_gather/cgroup" if limited else "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "JobAcctGatherParams": "" if limited else "OverMemoryKill",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": str(places.database_port),
        # Beside AuthInfo: without it slurmctld asks the usual munge when it speaks to slurmdbd.
        "AccountingStoragePass": str(places.munge_socket),
        "ReturnToService": "2",
        "KillWait": "2",
        "CompleteWait": "0",
        "MpiDefault": "none",
        "DefMemPerCPU": "100",
        **settings,
    }
    lines = [f"{name}={value}" for name, value in values.items() if value]
    lines += [
        f"NodeName={node} NodeHostname={places.host} Port={port} CPUs={NODE_CPUS} RealMemory={NODE_MEMORY_MIB}"
        for node, port in places.node_ports.items()
    ]
    nodes = ",".join(places.node_ports)
    return "\n".join([*lines, f"PartitionName=batch Nodes={nodes} Default=YES MaxTime=60 DefaultTime=5", ""])


def cgroup_conf() -> str:
    """The text of cgroup.conf: memory is limited, processors are not, as nodes have more than the machine."""
    return f"CgroupMountpoint={CGROUPS}\nCgroupAutomount=no\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"


def slurmdbd_conf(directory: Path, munge_socket: Path, port: int, password: str) -> str:
    """The text of slurmdbd.conf."""
    return (
        f"AuthType=auth/munge\nAuthInfo=socket={munge_socket}\nDbdHost=localhost\nDbdPort={port}\n"
        f"SlurmUser=slurm\nPidFile={directory}/slurmdbd.pid\nStorageType=accounting_storage/mysql\n"
        f"StorageHost=localhost\nStorageUser=slurm\nStoragePass={password}\nStorageLoc=slurm\n"
    )


def munged(key: Path, munge_socket: Path) -> Sequence[str]:
    """Options of munged."""
    folder = munge_socket.parent
    return (
        "--foreground", f"--key-file={key}", f"--socket={munge_socket}", f"--pid-file={folder / 'pid'}",
        f"--seed-file={folder / 'seed'}", f"--log-file={folder / 'log'}", "--force",
    )  # fmt: skip


def mariadbd(data: Path, server: Path) -> Sequence[str]:
    """Options of mariadbd: what a crash of the machine would lose does not matter, and 90 MB instead of 400."""
    return (
        "--no-defaults", "--user=mysql", f"--datadir={data}", f"--socket={server}", "--skip-networking",
        f"--pid-file={data / 'pid'}", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
        "--innodb-lock-wait-timeout=900", "--performance-schema=OFF",
    )  # fmt: skip
