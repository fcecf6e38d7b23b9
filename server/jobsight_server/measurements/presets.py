"""The exporters known by name: the series, quantity and unit of each, and the labels that tell things apart.

A selector's values are read as scraped. ``{job}`` stands for the job's id, ``{job_regex}`` for the same in
a regular expression, ``{nodes}`` for a regular expression of ``instance`` that the job's nodes match, ``{devices}`` for
the network devices to count, and ``{labels}`` for the site's own labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from jobsight_server.measurements.joining import Labels
from jobsight_server.settings.measurements import Preset, Quantity

Part = Literal["", "anonymous", "rss", "shmem", "cache", "used"]
"""Part of a job's memory in an exporter's terms (``measurements.memory``); empty for the quantity itself."""


class PresetQuery(NamedTuple):
    """A selector, or an expression to evaluate step by step; its values times ``scale`` are in the quantity's unit.

    ``of_whole``: the values of a part of a GPU mean nothing.
    """

    quantity: Quantity
    text: str
    scale: float = 1.0
    is_expression: bool = False
    labels: Labels = Labels()
    part: Part = ""
    of_whole: bool = False


_MIB, _PER_CENT, _NANO = 2.0**20, 0.01, 1e-9

# Each packet once: not on loopback, containers' and virtual machines' ends, and interfaces built on others.
VIRTUAL = (
    "lo|(veth|docker|cbr|incusbr|nerdctl|qbr|qv[bo]|azv|podman|br|virbr|vmbr|fwbr|fwpr|fwln|lxdbr|lxcbr|lxc|ovs|vnet|bond|team|tap|tun|macvlan|macvtap|ipvlan|"
    "cni|flannel|cali|cilium|weave|kube|nodelocaldns|vxlan|genev|gre|gretap|erspan|sit|ip6tnl|wg|tailscale|zt|vlan|dummy|"
    "ifb|nlmon|ib).*|.+[.@].+"
)

_CGROUP = '{cgroup=~".*/(job_)?{job_regex}"{labels}}'
_JOBSTATS = '{jobid="{job}",step="",task=""{labels}}'
_JOBSTATS_GPU = '{jobid="{job}"{labels}}'
_SLURM_JOB = '{slurmjobid="{job}"{labels}}'
_CEEMS = '{uuid="{job}"{labels}}'
_NODE = '{instance=~"{nodes}"{labels}}'
_NODE_CARDS = '{instance=~"{nodes}",{devices}{labels}}'
_NODE_BUSY = '{instance=~"{nodes}",mode!~"idle|iowait|steal|guest|guest_nice"{labels}}'
_DCGM = '{hpc_job="{job}"{labels}}'
_EVERY_GPU = '{gpuuuid!=""{labels}}'

GPU_LABELS = (
    ("uuid", "UUID", "gpu_uuid", "gpuuuid", "gpu", "minor_number", "ordinal", "index"),
    ("GPU_I_ID", "gpu_instance_id", "gpuiid"),
)
"""Names of a GPU's label, and of that of a part of it (MIG)."""


def is_part(labels: Mapping[str, str]) -> bool:
    """Return whether the labels of a series name a part of a GPU."""
    whole, part = GPU_LABELS
    return any(labels.get(name) for name in part) or any(labels.get(name, "").startswith("MIG-") for name in whole)


_GPU = Labels(apart=GPU_LABELS)
_CORES, _FLOWS = Labels(summed=("core",)), Labels(summed=("proto", "family"))
_CARDS, _PORTS = Labels(apart=(("device",),)), Labels(apart=(("device",), ("port",)))


def _memory(selector: str, **names: str) -> tuple[PresetQuery, ...]:
    """Return the queries of the parts of a job's memory: part -> metric."""
    parts: tuple[Part, ...] = ("anonymous", "rss", "shmem", "cache", "used")
    return tuple(PresetQuery("memory_bytes", names[part] + selector, part=part) for part in parts if part in names)


def _of_ceems(quantity: Quantity, metric: str, scale: float = 1.0) -> PresetQuery:
    """Return the query of a metric of dcgm-exporter, whose labels the site renames as CEEMS wants it, for the GPUs on
    which CEEMS saw the job. Its flag is 1 for a whole GPU, and below that for a part of one.
    """
    held = f"max by (hostname, gpuuuid, gpuiid) (ceems_compute_unit_gpu_index_flag{_CEEMS}) > bool 0"
    every = f"max by (gpuuuid, gpuiid) ({metric}{_EVERY_GPU})"
    text = f"{every} * on (gpuuuid, gpuiid) group_right () ({held})"
    return PresetQuery(quantity, text, scale, is_expression=True, labels=_GPU)


PRESETS: Mapping[Preset, tuple[PresetQuery, ...]] = {
    "cgroup_exporter": (
        PresetQuery("cpu_s", f"cgroup_cpu_total_seconds{_CGROUP}"),
        *_memory(
            _CGROUP,
            rss="cgroup_memory_rss_bytes",
            shmem="cgroup_memory_shmem_bytes",
            cache="cgroup_memory_cache_bytes",
            used="cgroup_memory_used_bytes",
        ),
    ),
    "jobstats": (
        PresetQuery("cpu_s", f"cgroup_cpu_total_seconds{_JOBSTATS}"),
        *_memory(
            _JOBSTATS,
            anonymous="cgroup_memory_rss_bytes",
            shmem="cgroup_memory_shmem_bytes",
            cache="cgroup_memory_cache_bytes",
        ),
        PresetQuery("gpu_memory_bytes", f"nvidia_gpu_memory_used_bytes{_JOBSTATS_GPU}", labels=_GPU),
        PresetQuery("gpus_busy", f"nvidia_gpu_duty_cycle{_JOBSTATS_GPU}", _PER_CENT, labels=_GPU, of_whole=True),
        PresetQuery("gpu_memory_total_bytes", f"nvidia_gpu_memory_total_bytes{_JOBSTATS_GPU}", labels=_GPU),
    ),
    "slurm_job_exporter": (
        PresetQuery("cpu_s", f"slurm_job_core_usage_total{_SLURM_JOB}", _NANO, labels=_CORES),
        *_memory(_SLURM_JOB, anonymous="slurm_job_memory_rss", cache="slurm_job_memory_cache"),
        PresetQuery("peak_bytes", f"slurm_job_memory_max{_SLURM_JOB}"),
        PresetQuery("gpu_memory_bytes", f"slurm_job_memory_usage_gpu{_SLURM_JOB}", labels=_GPU),
        PresetQuery("gpus_busy", f"slurm_job_utilization_gpu{_SLURM_JOB}", _PER_CENT, labels=_GPU),
        PresetQuery("gpu_memory_total_bytes", f"slurm_job_memory_total_gpu{_SLURM_JOB}", labels=_GPU),
    ),
    "ceems": (
        PresetQuery("cpu_s", f"ceems_compute_unit_cpu_user_seconds_total{_CEEMS}"),
        PresetQuery("cpu_s", f"ceems_compute_unit_cpu_system_seconds_total{_CEEMS}"),
        *_memory(
            _CEEMS, anonymous="ceems_compute_unit_memory_rss_bytes", cache="ceems_compute_unit_memory_cache_bytes"
        ),
        PresetQuery("received_bytes", f"ceems_ebpf_ingress_bytes_total{_CEEMS}", labels=_FLOWS),
        PresetQuery("sent_bytes", f"ceems_ebpf_egress_bytes_total{_CEEMS}", labels=_FLOWS),
        _of_ceems("gpu_memory_bytes", "DCGM_FI_DEV_FB_USED", _MIB),
        _of_ceems("gpus_busy", "DCGM_FI_DEV_GPU_UTIL", _PER_CENT)._replace(of_whole=True),
        _of_ceems("gpus_busy", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),  # slices have no other
        _of_ceems("gpu_memory_total_bytes", "DCGM_FI_DEV_FB_TOTAL", _MIB),
    ),
    "node_exporter": (
        PresetQuery("node_cpu_s", f"sum without (cpu, mode) (node_cpu_seconds_total{_NODE_BUSY})", is_expression=True),
        PresetQuery("node_memory_bytes", f"node_memory_MemTotal_bytes{_NODE}"),
        PresetQuery("node_memory_bytes", f"node_memory_MemAvailable_bytes{_NODE}", -1.0),
        PresetQuery("node_received_bytes", f"node_network_receive_bytes_total{_NODE_CARDS}", labels=_CARDS),
        PresetQuery("node_sent_bytes", f"node_network_transmit_bytes_total{_NODE_CARDS}", labels=_CARDS),
        PresetQuery(
            "node_infiniband_received_bytes", f"node_infiniband_port_data_received_bytes_total{_NODE}", labels=_PORTS
        ),
        PresetQuery(
            "node_infiniband_sent_bytes", f"node_infiniband_port_data_transmitted_bytes_total{_NODE}", labels=_PORTS
        ),
    ),
    "dcgm": (
        PresetQuery("gpu_memory_bytes", f"DCGM_FI_DEV_FB_USED{_DCGM}", _MIB, labels=_GPU),
        PresetQuery("gpus_busy", f"DCGM_FI_DEV_GPU_UTIL{_DCGM}", _PER_CENT, labels=_GPU, of_whole=True),
        PresetQuery("gpus_busy", f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{_DCGM}", labels=_GPU),  # slices have no other
        PresetQuery("gpu_memory_total_bytes", f"DCGM_FI_DEV_FB_TOTAL{_DCGM}", _MIB, labels=_GPU),
    ),
}

NODE_LABELS: Mapping[Preset, str] = {"ceems": "hostname", "dcgm": "Hostname"}
"""The label with the node's name if it is not ``instance``."""
