"""``jobsight-seff`` of users: a real munged authenticates the user, who sees no other user's jobs."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import update
from tests import make
from tests.deploy.conftest import _learn

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.schema import jobs
from site_run import Site, wait_until

CLIENT = Path(__file__).parents[2] / "deploy" / "slurm" / "jobsight-seff"
OTHER = "nobody"

pytestmark = [
    pytest.mark.skipif(shutil.which("munged", path="/usr/sbin:/usr/bin") is None, reason="no munge"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user"),
]


@dataclass(frozen=True, slots=True)
class Munged:
    """A site whose jobs are of ``OTHER`` but for the last, which is of the user who runs the tests."""

    site: Site
    socket: Path
    client: Path

    def credential(self, user: str | None = None) -> str:
        done = subprocess.run(
            ["munge", f"--socket={self.socket}", "-n"], capture_output=True, text=True, check=True, user=user, cwd="/"
        )
        return done.stdout.strip()

    def seff(self, job: str, user: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "JOBSIGHT_SERVER": self.site.url}
        return subprocess.run(
            ["/usr/bin/python3", str(self.client), job], capture_output=True, text=True, user=user, env=environment,
            cwd="/", check=False,
        )  # fmt: skip

    def status(self, job: str, authorization: str) -> tuple[int, str]:
        url = f"{self.site.url}/api/v1/efficiency?name={job}"
        request = urllib.request.Request(url, headers={"Authorization": authorization})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def start_munged(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "key"
    key.touch(mode=0o400)
    key.write_bytes(os.urandom(128))
    socket = folder / "socket"
    places = (f"--{name}-file={folder / name}" for name in ("key", "pid", "seed", "log"))
    process = subprocess.Popen(["munged", "--foreground", f"--socket={socket}", "--force", *places])
    wait_until(socket.exists, 30, lambda: "munged does not start")
    return process


@pytest.fixture(scope="module")
def munged() -> Iterator[Munged]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        (folder := directory / "munge").mkdir(mode=0o755)
        process = start_munged(folder)
        client = directory / "jobsight-seff"
        client.write_text(CLIENT.read_text().replace('"munge"', f'"munge --socket={folder / "socket"}"'))
        client.chmod(0o755)
        (place := directory / "site").mkdir(mode=0o700)
        site = make.site(place, "--munge-socket", f"{folder}/socket")
        _learn(site.database)
        engine = open_engine(site.database)
        with engine.begin() as connection:
            connection.execute(update(jobs).values(user=OTHER))
            own = update(jobs).where(jobs.c.job_id == "13")
            connection.execute(own.values(user=pwd.getpwuid(os.geteuid()).pw_name, array_task="9_4"))
        engine.dispose()
        try:
            with site.serve():
                yield Munged(site, folder / "socket", client)
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.exhaustive
def test_users_see_what_their_own_jobs_used_and_no_other_jobs(munged: Munged) -> None:
    found = munged.seff("3", OTHER)
    assert (found.returncode, found.stderr) == (0, "")
    assert "Job 3 on alpha: cfd.sh of nobody" in found.stdout
    assert "processors" in found.stdout
    for job in ("13", "9_4", "99"):
        other = munged.seff(job, OTHER)
        assert (other.returncode, other.stdout) == (1, ""), job
        assert f"no job {job!r}" in other.stderr or "unknown" in other.stderr, "as if there were none"
    assert munged.seff("9_4").stdout == munged.seff("13").stdout != ""


@pytest.mark.exhaustive
def test_a_credential_is_worth_nothing_forged_copied_or_changed(munged: Munged) -> None:
    good = munged.credential(OTHER)
    assert munged.status("3", f"Munge {good}")[0] == 200
    status, text = munged.status("3", f"Munge {good}")
    assert (status, "Replayed" in text) == (401, True)
    fresh = munged.credential(OTHER)
    for header in (
        "Munge", "Munge x", f"Munge {fresh[:-20]}AAAA{fresh[-16:]}", f"Munge {fresh * 50}", "Munge MUNGE:AAAA:",
        "Munge MUNGE:;id:", "Bearer " + fresh,
    ):  # fmt: skip
        assert munged.status("3", header)[0] == 401, header[:40]
    with tempfile.TemporaryDirectory() as name:  # of a host that does not share the key
        process = start_munged(Path(name))
        try:
            foreign = subprocess.check_output(["munge", f"--socket={name}/socket", "-n"], text=True).strip()
        finally:
            process.terminate()
            process.wait(30)
    assert munged.status("3", f"Munge {foreign}")[0] == 401


def test_a_flood_of_credentials_leaves_the_others_answers(munged: Munged) -> None:
    statuses: list[int] = []

    def ask() -> None:
        statuses.extend(munged.status("3", "Munge MUNGE:AwQDAAAA:")[0] for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    health = [munged.site.api("now")["now"] for _ in range(3)]
    for thread in threads:
        thread.join()
    assert set(statuses) <= {401, 503}
    assert len(health) == 3
    assert munged.seff("3", OTHER).returncode == 0
