"""`jobsight serve` beside another one, or without write access: one line, exit status 1."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from tests import make

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import LockedError, ServerLock, role_lock
from jobsight_server.upgrade.migrate import upgrade
from site_run import JOBSIGHT, free_address, wait_until

ORDINARY_USER = 65534
ROOT = Path(__file__).parents[3]


def serve_command(database: str) -> tuple[list[str], str]:
    """`jobsight serve` on two free ports, and the address of the first."""
    address = free_address()
    host, _, port = address.partition(":")
    flags = ["--database", database, "--listen", address, "--ingest-listen", f"{host}:{int(port) + 1}"]
    flags += ["--query-workers", "1"]
    return [*JOBSIGHT, "serve", *flags], address


@contextmanager
def serving(database: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is ready."""
    command, address = serve_command(database)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def ready() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://{address}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    try:
        wait_until(ready, 180, lambda: "the first server is not ready")
        yield process
    finally:
        process.terminate()
        process.wait(180)


# Root may write everywhere, so that somebody else has to try; what is imported by then need not be readable to them.
AS_ORDINARY_USER = f"""
import os, sys
from jobsight_server import cli
from jobsight_server.commands import import_arguments, import_logs, predict, serve, token
from jobsight_server.systems.listed import all_sections
all_sections()
if os.geteuid() == 0:
    cli.main(["token", "create", "--role", "agent", "--database", sys.argv.pop(1)])
    os.setgroups([])
    os.setgid({ORDINARY_USER})
    os.setuid({ORDINARY_USER})
sys.stdout.flush()
print("::", file=sys.stderr)
print("::")
sys.exit(cli.main(sys.argv[1:]))
"""


def run_as_ordinary_user(warm_up: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run `jobsight` without special rights; ``warm_up`` is a database to load the whole program with."""
    run = [sys.executable, "-c", AS_ORDINARY_USER, f"sqlite:///{warm_up}", *command]
    if os.geteuid() != 0:
        run.remove(f"sqlite:///{warm_up}")
    done = subprocess.run(run, capture_output=True, text=True, timeout=180, check=False)
    done.stdout, done.stderr = done.stdout.partition("::\n")[2], done.stderr.partition("::\n")[2]
    return done


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory open to every user, unlike ``tmp_path``."""
    directory = Path(tempfile.mkdtemp(prefix="jobsight-test-"))
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


def test_a_second_server_is_refused_at_once(database_url: str) -> None:
    with serving(database_url) as first:
        command, _ = serve_command(database_url)
        second = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert (second.returncode, second.stdout) == (1, "")
        assert len(second.stderr.splitlines()) == 1
        assert "another `jobsight serve` runs on database" in second.stderr
        assert "stop that one first" in second.stderr
        assert first.poll() is None
    ServerLock(open_engine(database_url), "once the first has ended, another may start").close()


def test_a_link_to_the_database_is_the_same_database(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(tmp_path / "site.db")
    engines = [open_engine(f"sqlite:///{path}") for path in (tmp_path / "site.db", link)]
    upgrade(engines[0])
    lock = ServerLock(engines[0], "site.db")
    with pytest.raises(LockedError, match=r"stop that one first"):
        ServerLock(engines[1], "site.db")
    with role_lock(engines[0], "writer"), pytest.raises(LockedError), role_lock(engines[1], "writer"):
        pass
    lock.close()
    ServerLock(engines[1], "site.db").close()


@pytest.mark.storage
def test_a_lost_session_is_noticed(database_url: str) -> None:
    """PostgreSQL ends the session, as a restart does: the lock is taken again, unless another server was quicker."""
    if database_url.startswith("sqlite"):
        pytest.skip("a lock on a file has no session to lose")
    engines = [open_engine(database_url) for _ in range(2)]
    lock = ServerLock(engines[0], "x")
    administrator = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"))

    def end_sessions() -> None:
        with administrator.connect() as connection:
            query = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() "
            connection.execute(text(query + "AND pid <> pg_backend_pid()"))

    end_sessions()
    lock.renew()
    with pytest.raises(LockedError):
        ServerLock(engines[1], "x")
    end_sessions()
    other = ServerLock(engines[1], "x")
    with pytest.raises(LockedError):
        lock.renew()
    other.close()
    lock.close()
    for engine in (*engines, administrator):
        engine.dispose()


@pytest.mark.parametrize("command", ["serve", "token create --role scheduler", "import torque {file} --cluster alpha"])
def test_an_unwritable_directory_is_said_in_a_line(tmp_path: Path, open_directory: Path, command: str) -> None:
    log = open_directory / "20261101"
    log.write_text("")
    open_directory.chmod(0o555)
    url = f"sqlite:///{open_directory / 'site.db'}"
    words = [*command.format(file=log).split(), "--database", url]
    if command == "serve":  # on ports that no other service has
        words = serve_command(url)[0][len(JOBSIGHT) :]
    done = run_as_ordinary_user(tmp_path / "other.db", *words)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert f"{open_directory} cannot be written by user" in lines[0]
    assert "--database" in lines[0]


@pytest.mark.exhaustive
@pytest.mark.skipif(
    os.geteuid() == 0 and not all(place.stat().st_mode & stat.S_IXOTH for place in (ROOT, *ROOT.parents)),
    reason="an ordinary user cannot read the checkout's directory",
)
@pytest.mark.parametrize("writer", ["has gone", "is there"])
def test_predict_reads_a_database_that_it_cannot_write(tmp_path: Path, open_directory: Path, writer: str) -> None:
    file = open_directory / "site.db"
    database = ["--database", f"sqlite:///{file}"]
    log = ROOT / "examples" / "accounting" / "20261101"
    subprocess.run([*JOBSIGHT, "import", "torque", str(log), "--cluster", "alpha", *database], check=True)
    ask = [*JOBSIGHT, "predict", "--cluster", "alpha", "--user", "alice", "--json", *database]
    expected = subprocess.run(ask, capture_output=True, text=True, check=True)
    assert '"value": ' in expected.stdout
    engine = open_engine(f"sqlite:///{file}")
    make.execute(engine, "UPDATE jobs SET queue = 'written last' WHERE job_id <> '1039.server'")
    if writer == "has gone":
        engine.dispose()
        assert not Path(f"{file}-wal").exists()
    else:
        assert Path(f"{file}-wal").stat().st_size > 0
    for made in open_directory.iterdir():
        made.chmod(0o444)
    open_directory.chmod(0o555)
    before = sorted(open_directory.iterdir())
    done = run_as_ordinary_user(tmp_path / "other.db", *ask[len(JOBSIGHT) :])
    assert (done.returncode, done.stderr) == (0, expected.stderr)
    assert done.stdout == expected.stdout
    assert sorted(open_directory.iterdir()) == before
    engine.dispose()
