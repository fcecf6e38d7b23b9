"""The path and owner of everything installed."""

from __future__ import annotations

import getpass
import os
import pwd
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

USER = "jobsight"


@dataclass(frozen=True, slots=True)
class Places:
    """Paths below ``prefix``. With a prefix other than /, there is no service and the current user owns all files.

    ``agents_url`` is the address that agents send to; without it, the writer's on this host. ``users_url`` is that of
    the API and the pages for login nodes; without it, they are open to this host only.
    ``listen`` is the server's new address, if given now.
    """

    prefix: Path = Path("/")
    cluster: str | None = None
    address: str = "127.0.0.1"
    port: int = 8470
    agents_url: str | None = None
    configure: bool = False
    user: str = ""
    users_url: str | None = None
    listen: str = ""

    @property
    def is_system(self) -> bool:
        return self.prefix == Path("/")

    def command(self, command: str, scheduler: str) -> str:
        """Return a command for the installation here, to be shown."""
        prefix = "" if self.is_system else f" --prefix {shlex.quote(str(self.prefix))}"
        return f"jobsight {command} {scheduler}{prefix}"

    @property
    def has_services(self) -> bool:
        return self.is_system and Path("/run/systemd/system").is_dir()

    @property
    def owner(self) -> str:
        """Return the user of server and agents."""
        return self.user or (USER if self.is_system else getpass.getuser())

    @property
    def group(self) -> str:
        """Return the group of the settings; named like the user, unless the user exists already."""
        try:
            return str(pwd.getpwnam(self.owner).pw_gid)
        except KeyError:
            return self.owner

    @property
    def settings(self) -> Path:
        return self.at("etc/jobsight/jobsight.toml")

    @property
    def choices(self) -> Path:
        """Return the path of the site's choices for submission."""
        return self.at("etc/jobsight/submit.conf")

    @property
    def hooks(self) -> Path:
        return self.at("usr/local/lib/jobsight")

    @property
    def archive(self) -> Path:
        return self.hooks / "jobsight-node.sh"

    @property
    def node_token(self) -> Path:
        return self.at("etc/jobsight/node-token")

    @property
    def url_of_users(self) -> str:
        return (self.users_url or f"http://{self.address}:{self.port}").rstrip("/")

    def manifest(self, kind: str) -> Path:
        return self.at(f"etc/jobsight/setup-{kind}.json")

    def at(self, path: str) -> Path:
        return self.prefix / path

    def jobsight(self, *arguments: str) -> tuple[str, ...]:
        """Return a command of this installation with these settings."""
        return (sys.executable, "-I", "-m", "jobsight_server.cli", *arguments, "--config", str(self.settings))

    @property
    def program(self) -> str:
        return os.fspath(Path(sys.executable).parent / "jobsight")
