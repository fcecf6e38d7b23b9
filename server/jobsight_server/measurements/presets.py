"""The exporters known by name: the series, quantity and unit of each.

A selector's values are read as scraped. ``{job}`` stands for the job's id, ``{job_regex}`` for the same in
a regular expression, ``{nodes}`` for a regular expression of ``instance`` that the job's nodes match, and ``{labels}``
for the site's own labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jobsight_server.settings.measurements import Preset, Quantity


class PresetQuery(NamedTuple):
    """A selector, or an expression to evaluate step by step; its values times ``scale`` are in the quantity's unit."""

    quantity: Quantity
    text: str
    scale: float = 1.0
    is_expression: bool = False


_MIB, _PER_CENT, _NANO = 2.0**20, 0.01, 1e-9

# Each packet once: not on loopback, containers' ends, and interfaces built on others.
_VIRTUAL = "lo|(veth|docker|br|virbr|bond|team|tap|tun|cni|flannel|cali|vxlan|vlan|dummy|ib).*|.+[.].+"

_CGROUP = '{cgroup=~".*/(job_)?{job_regex}"{labels}}'
_JOBSTATS = '{jobid="{job}",step="",task=""{labels}}'
_JOBSTATS_GPU = '{jobid="{job}"{labels}}'
_SLURM_JOB = '{slurmjobid="{job}"{labels}}'
_CEEMS = '{uuid="{job}"{labels}}'
_NODE = '{instance=~"{nodes}"{labels}}'
_NODE_CARDS = '{instance=~"{nodes}",device!~"' + _VIRTUAL + '"{labels}}'
_NODE_BUSY = '{instance=~"{nodes}",mode!~"idle|iowait|steal|guest|guest_nice"{labels}}'
_DCGM = '{hpc_job="{job}"{labels}}'

PRESETS: Mapping[Preset, tuple[PresetQuery, ...]] = {
    "cgroup_exporter": (
        PresetQuery("cpu_s", f"cgroup_cpu_total_seconds{_CGROUP}"),
        PresetQuery("memory_bytes", f"cgroup_memory_rss_bytes{_CGROUP}"),
        PresetQuery("cache_bytes", f"cgroup_memory_cache_bytes{_CGROUP}"),
    ),
    "jobstats": (
        PresetQuery("cpu_s", f"cgroup_cpu_total_seconds{_JOBSTATS}"),
        PresetQuery("memory_bytes", f"cgroup_memory_rss_bytes{_JOBSTATS}"),
        PresetQuery("memory_bytes", f"cgroup_memory_shmem_bytes{_JOBSTATS}"),
        PresetQuery("cache_bytes", f"cgroup_memory_cache_bytes{_JOBSTATS}"),
        PresetQuery("gpu_memory_bytes", f"nvidia_gpu_memory_used_bytes{_JOBSTATS_GPU}"),
        PresetQuery("gpus_busy", f"nvidia_gpu_duty_cycle{_JOBSTATS_GPU}", _PER_CENT),
    ),
    "slurm_job_exporter": (
        PresetQuery("cpu_s", f"slurm_job_core_usage_total{_SLURM_JOB}", _NANO),
        PresetQuery("memory_bytes", f"slurm_job_memory_rss{_SLURM_JOB}"),
        PresetQuery("cache_bytes", f"slurm_job_memory_cache{_SLURM_JOB}"),
        PresetQuery("peak_bytes", f"slurm_job_memory_max{_SLURM_JOB}"),
        PresetQuery("gpu_memory_bytes", f"slurm_job_memory_usage_gpu{_SLURM_JOB}"),
        PresetQuery("gpus_busy", f"slurm_job_utilization_gpu{_SLURM_JOB}", _PER_CENT),
    ),
    "ceems": (
        PresetQuery("cpu_s", f"ceems_compute_unit_cpu_user_seconds_total{_CEEMS}"),
        PresetQuery("cpu_s", f"ceems_compute_unit_cpu_system_seconds_total{_CEEMS}"),
        PresetQuery("memory_bytes", f"ceems_compute_unit_memory_rss_bytes{_CEEMS}"),
        PresetQuery("cache_bytes", f"ceems_compute_unit_memory_cache_bytes{_CEEMS}"),
        PresetQuery("received_bytes", f"ceems_ebpf_ingress_bytes_total{_CEEMS}"),
        PresetQuery("sent_bytes", f"ceems_ebpf_egress_bytes_total{_CEEMS}"),
    ),
    "node_exporter": (
        PresetQuery("node_cpu_s", f"sum by (instance) (node_cpu_seconds_total{_NODE_BUSY})", is_expression=True),
        PresetQuery("node_memory_bytes", f"node_memory_MemTotal_bytes{_NODE}"),
        PresetQuery("node_memory_bytes", f"node_memory_MemAvailable_bytes{_NODE}", -1.0),
        PresetQuery("node_received_bytes", f"node_network_receive_bytes_total{_NODE_CARDS}"),
        PresetQuery("node_sent_bytes", f"node_network_transmit_bytes_total{_NODE_CARDS}"),
        PresetQuery("node_infiniband_received_bytes", f"node_infiniband_port_data_received_bytes_total{_NODE}"),
        PresetQuery("node_infiniband_sent_bytes", f"node_infiniband_port_data_transmitted_bytes_total{_NODE}"),
    ),
    "dcgm": (
        PresetQuery("gpu_memory_bytes", f"DCGM_FI_DEV_FB_USED{_DCGM}", _MIB),
        PresetQuery("gpus_busy", f"DCGM_FI_DEV_GPU_UTIL{_DCGM}", _PER_CENT),
    ),
}

NODE_LABELS: Mapping[Preset, str] = {"ceems": "hostname", "dcgm": "Hostname"}
"""The label with the node's name if it is not ``instance``."""
