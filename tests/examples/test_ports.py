"""The demo's ports: checked with the standard library alone, before anything is installed."""

from __future__ import annotations

import ast
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ports
from site_run import free_address

ROOT = Path(__file__).parents[2]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens; the one before it is free."""
    port = int(free_address().rpartition(":")[2]) + 1
    with socket.create_server(("127.0.0.1", port)):
        yield port


def test_nothing_but_the_standard_library_is_imported() -> None:
    tree = ast.parse((ROOT / "examples/ports.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {str(name).partition(".")[0] for name in imported} <= set(sys.stdlib_module_names)


def test_a_taken_port_is_refused_by_the_option_that_chooses_another(taken: int) -> None:
    for wanted in (f"127.0.0.1:{taken}", f"127.0.0.1:{taken - 1}"):
        with pytest.raises(OSError, match=rf"127.0.0.1:{taken}: .* `make demo LISTEN=127.0.0.1:"):
            ports.choose(wanted)


@pytest.mark.parametrize("wanted", ["8470", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":8470"])
def test_what_is_no_address_is_refused(wanted: str) -> None:
    with pytest.raises(OSError, match=f"{wanted} is not an address: give HOST:PORT, as in `make demo LISTEN="):
        ports.choose(wanted)


def test_the_next_free_pair_is_taken_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = free_address()
    monkeypatch.setattr(ports, "USUAL", usual)
    port = int(usual.rpartition(":")[2])
    assert ports.choose(None) == usual
    with socket.create_server(("127.0.0.1", port + 1)):
        assert ports.choose(None) != usual
        assert ports.choose(None) == ports.choose(ports.choose(None))


def test_make_checks_before_it_installs(taken: int, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    command = ["make", "demo", f"LISTEN=127.0.0.1:{taken}", f"VENV={venv}", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"demo: 127.0.0.1:{taken}: Address already in use; choose another with `make demo LISTEN=" in done.stderr
    assert not venv.exists()
