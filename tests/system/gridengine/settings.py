"""The configuration files of a Grid Engine that shares this machine with whatever else runs on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

LIBRARY = Path("/usr/lib/gridengine")
SHARE = Path("/usr/share/gridengine")
QUEUE = "batch.q"
ENVIRONMENTS = {
    # ``qrsh`` starts tasks in it, each of which leaves a record of its own ...
    "tight": {"job_is_first_task": "FALSE", "accounting_summary": "FALSE"},
    # ... or is added up in the job's.
    "summed": {"job_is_first_task": "FALSE", "accounting_summary": "TRUE"},
    # Programs are started without the help of Grid Engine, which knows of one task only.
    "loose": {"control_slaves": "FALSE", "accounting_summary": "FALSE"},
}


def bootstrap(common: Path, spool: Path) -> str:
    """The text of the cell's bootstrap file."""
    values = {
        "admin_user": "sgeadmin",
        "default_domain": "none",
        "ignore_fqdn": "true",
        "spooling_method": "classic",
        "spooling_lib": "libspoolc",
        "spooling_params": f"{common};{spool}",
        "binary_path": LIBRARY,
        "qmaster_spool_dir": spool,
        "security_mode": "none",
        "listener_threads": 2,
        "worker_threads": 2,
        "scheduler_threads": 1,
    }
    return "".join(f"{name} {value}\n" for name, value in values.items())


def configuration(execd_spool: Path, first_group: int) -> str:
    """The text of the global configuration; ``first_group`` begins the range of groups that tell jobs apart."""
    settings = {
        "execd_spool_dir": str(execd_spool),
        "load_report_time": "0:0:1",
        "min_uid": "100",
        "min_gid": "100",
        "gid_range": f"{first_group}-{first_group + 99}",
        "mailer": "/bin/true",
        "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
    }
    return changed((SHARE / "default-configuration").read_text(), settings)


def parallel_environment(name: str) -> str:
    """The text of a parallel environment on one host."""
    template = (SHARE / "util" / "resources" / "pe" / "smp").read_text()
    return changed(template, {"pe_name": name, "allocation_rule": "$pe_slots", **ENVIRONMENTS[name]})


def queue(template: str, host: str, tmp: Path) -> str:
    """The text of the queue, which has more slots than the machine has processors."""
    settings = {
        "qname": QUEUE, "hostlist": host, "slots": "64", "pe_list": " ".join(ENVIRONMENTS), "load_thresholds": "NONE",
        "min_cpu_interval": "00:00:01", "shell": "/bin/sh", "tmpdir": str(tmp),
    }  # fmt: skip
    return changed(template, settings)


def scheduler(template: str) -> str:
    """The text of the scheduler's configuration: it looks every second."""
    settings = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
    return changed(template, {**settings, "job_load_adjustments": "NONE"})


def changed(text: str, settings: Mapping[str, str]) -> str:
    """A text of names and values with these values."""
    for name, value in settings.items():
        text, count = re.subn(
            rf"^{name}(\s+).*$", lambda found, name=name, value=value: f"{name}{found[1]}{value}", text, flags=re.M
        )
        assert count == 1, f"{name} must be there once:\n{text}"
    return text
