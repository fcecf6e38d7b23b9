"""The files and commands of a setup: enough to detect a site's own edits, and to undo everything."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from jobsight_server.storage.named_files import whole_file


def digest(content: bytes) -> str:
    """Return the stored digest of a file's content."""
    return hashlib.sha256(content).hexdigest()


class Written(msgspec.Struct):
    """A written file; ``before`` is its earlier content, ``token`` its number, ``scope`` cluster and nodes."""

    sha256: str
    before: str | None = None
    token: int | None = None
    scope: list[str | None] | None = None


class Manifest(msgspec.Struct):
    """All done items, oldest first; ``undo`` are commands. The rest are options, which later runs keep."""

    cluster: str | None = None
    agents_url: str | None = None
    users_url: str | None = None
    user: str = ""
    files: dict[str, Written] = {}
    folders: list[str] = []
    undo: list[list[str]] = []

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Return the stored manifest; an empty one if there is none."""
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else cls()

    def is_unedited(self, name: str) -> bool:
        """Return whether a file is still as it was written."""
        path = Path(name)
        return path.exists() and digest(path.read_bytes()) == self.files[name].sha256

    def take_undo(self, program: str) -> list[list[str]]:
        """Take out the commands of a program that undo something, and return them."""
        taken = [command for command in self.undo if command[0] == program]
        self.undo = [command for command in self.undo if command[0] != program]
        return taken

    def save(self, path: Path) -> None:
        """Replace the stored manifest; only root can read it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, 0o600, keep=False) as other:
            other.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
