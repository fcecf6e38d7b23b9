"""One file for the nodes: a shell script that carries agent, psutil, settings, token, hook and unit."""

from __future__ import annotations

import gzip
import io
import socket
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from jobsight_server.ground.errors import UserError
from jobsight_server.setup import site_scripts
from jobsight_server.setup.places import Places
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup
from jobsight_server.setup.shipped import shipped, with_shell_settings, with_toml_settings

_TEST_CODE = {"__pycache__", "tests"}


def node_archive(scheduler: SchedulerSetup, places: Places) -> bytes:
    """Return the script; the same bytes for the same release, settings and token.

    Raises:
        FileNotFoundError: the nodes' token does not exist yet.
        UserError: psutil's compiled part works with this version of Python only.
    """
    token = places.node_token.read_bytes()
    server = places.agents_url or f"http://{socket.getfqdn()}:{places.port + 1}"
    settings = {"server": server, "cluster": scheduler.cluster}
    files = {
        "agent-token": token,
        "agent.toml": with_toml_settings(shipped("agent.toml"), settings).encode(),
        "mark-job": shipped("hooks/mark-job").encode(),
        "site_scripts.py": Path(site_scripts.__file__).read_bytes(),
        **{
            f"jobsight{name}": shipped(f"systemd/jobsight{name}").encode()
            for name in ("-agent.service", ".sysusers", ".tmpfiles")
        },
    }
    for package in ("jobsight_agent", "psutil"):
        found = find_spec(package)
        files |= _package(Path(str(found and found.origin)).parent)  # both are part of every installation
    known = {"HOOK_COPIES": " ".join(scheduler.hook_copies), "STARTED": " ".join(_own(scheduler, places))}
    return with_shell_settings(shipped("node/install.sh"), known).encode() + _packed(files)


def _own(scheduler: SchedulerSetup, places: Places) -> Iterator[str]:
    """Yield what nodes run of the site's own: the same before and after the scheduler has our hooks."""
    return (script for script in scheduler.started if not script.startswith(f"{places.hooks}/"))


def _package(folder: Path) -> dict[str, bytes]:
    compiled = [*folder.glob("*.so")]
    if compiled and not all(file.name.endswith(".abi3.so") for file in compiled):
        raise UserError(
            f"{folder} is compiled for one version of Python: install psutil's wheel (pip install --only-binary :all: "
            "--force-reinstall psutil), or install the agents with pip, as deploy/README.md shows"
        )
    return {
        f"site/{folder.name}/{file.relative_to(folder)}": file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not _TEST_CODE & set(file.relative_to(folder).parts)
    }


def _packed(files: dict[str, bytes]) -> bytes:
    """Return a gzipped tar without times and owners."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)
