"""The scripts that a Slurm starts, the site's own among them, and whether they call Jobsight's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import File
from jobsight_server.setup.schedulers.scheduler import safe_call
from jobsight_server.setup.schedulers.slurm_conf import settings
from jobsight_server.setup.shipped import shipped
from jobsight_server.setup.site_scripts import Script, calls, code_lines

NONE = ("", "(null)", "none", "n/a")
_STARTS = re.compile(r"(?i)(?:prolog|epilog|prog|program)(?:slurmctld)?(?:\[\d+\])?\Z")
_SUBMITS = re.compile(r"[.:]\s*submit\s*\(")


def started(config: Mapping[str, str], slurm_conf: Path) -> list[str]:
    """Return the paths of all scripts: of nodes, and of slurmctld beside slurm.conf."""
    lua = [slurm_conf.with_name(f"{name}.lua") for name in ("job_submit", "cli_filter")]
    return [*started_on_nodes(config, slurm_conf), *(str(file) for file in lua if file.exists())]


def started_on_nodes(config: Mapping[str, str], slurm_conf: Path) -> list[str]:
    """Return the paths of scripts by slurmctld's settings and by those in its files."""
    both = [*config.items(), *settings(slurm_conf, config["ClusterName"]).items()]
    words = [word for name, value in both if _STARTS.search(name) for word in re.split(r"[\s,]+", value)]
    return [*dict.fromkeys(word for word in words if "/" in word)]


def unmarked(config: Mapping[str, str], places: Places, setup: str) -> str:
    """Return what to do so that Prolog and Epilog mark jobs; empty if they do, or that cannot be seen here."""
    todo = []
    for name in ("Prolog", "Epilog"):
        value, hook = config.get(name, ""), places.hooks / name.lower()
        if value.lower() in NONE:
            todo.append(f"{name} is not set: run `{setup} --configure` once all agents report")
        elif value != str(hook):
            found = calls([value], [places.hooks])
            todo += [] if found.found or found.missing else [f"{name} is {value}: add to it: {safe_call(hook)}"]
    return "; ".join(todo)


def own_script(slurm_conf: Path, places: Places) -> File | None:
    """Return the job_submit.lua to install; None if the site has its own."""
    script = slurm_conf.with_name("job_submit.lua")
    if script.exists() and str(script) not in Manifest.load(places.manifest("slurm")).files:
        return None
    text = shipped("slurm/job_submit.lua").replace("/etc/slurm/jobsight_submit.lua", str(module_of(slurm_conf)))
    return File(script, 0o644, content=text)


def module_of(slurm_conf: Path) -> Path:
    """Return the place of the module that job_submit.lua calls."""
    return slurm_conf.with_name("jobsight_submit.lua")


def missing_lines(slurm_conf: Path) -> list[str]:
    """Return the lines that job_submit.lua lacks to call Jobsight, with their places there."""
    script, module = slurm_conf.with_name("job_submit.lua"), module_of(slurm_conf)
    loads = calls([str(script)], [module]).found
    texts = [
        Path(file).read_text(errors="replace") for file in {str(script), *(line.partition(":")[0] for line in loads)}
    ]
    lines = [line for text in texts for line in code_lines(Script(script.name, text))]
    wanted = {
        f'at its top: local has_jobsight, jobsight = pcall(dofile, "{module}")': bool(loads),
        "in slurm_job_submit(job_desc, part_list, ...), where it has accepted the job: "
        "if has_jobsight then jobsight.submit(job_desc, part_list) end": any(map(_SUBMITS.search, lines)),
    }
    return [line for line, is_there in wanted.items() if not is_there]
