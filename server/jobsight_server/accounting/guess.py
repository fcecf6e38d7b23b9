"""Guesses which scheduler wrote a file by parsing its beginning in each format.

PBS Pro and TORQUE write the same lines, except for some keys that only one of them writes.
"""

from __future__ import annotations

import io
import re

from jobsight_server.accounting.files import Content, UnreadableError
from jobsight_server.accounting.formats import BEGINNING_BYTES, reader_of
from jobsight_server.accounting.parsers.slurm.sacct_text import COLUMNS
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.store import printable
from jobsight_server.settings.declared import ACCOUNTING_FORMATS, AccountingFormat

SACCT_TEXT = f"sacct -aDP --delimiter=$'\\x1f' --format=ElapsedRaw,{','.join(COLUMNS)}"
"""The command whose text has every column that is read, of those that each release has."""
_OF_SACCT = re.compile(r"(?i)\b(?:JobID(?:Raw)?|JobName|Elapsed(?:Raw)?|MaxRSS|ReqMem|AllocCPUS|NodeList|State)\b")

TRIED = 100
"""Number of records to try in each format."""

_SHOWN = 120
_COMMENT = "comment"  # a record that is not about a job, and does not show the format
_KEYS: dict[AccountingFormat, tuple[bytes, ...]] = {
    "torque": (b"Resource_List.neednodes=", b" owner="),
    # Not Resource_List.select, which TORQUE also writes if users give it.
    "pbspro": (b" exec_vnode=", b"Resource_List.place=", b" project=_pbs_project_default"),
}
# Formats that are tried only where this is in the beginning.
_MARKS: dict[AccountingFormat, bytes] = {"condor": b'"ClusterId"', "lsf": b'"JOB_FINISH"'}
_OF_QACCT = re.compile(rb"\s*=+\s*\n\s*qname ")
_OF_SQUEUE = re.compile(rb'\s*\{\s*"meta"\s*:\s*\{[^{]*\{\s*"type"\s*:\s*"openapi\\?/(?:v0|slurmctld)')
# Files to unpack or convert first: their beginning, their kind, and the command for it.
_PACKED: tuple[tuple[bytes, str, str], ...] = (
    (b"\xfd7zXZ\x00", "compressed by xz", "unpack it with xz -d"),
    (b"BZh", "compressed by bzip2", "unpack it with bunzip2"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it with zstd -d"),
    (b"\x1f\x9d", "compressed by compress", "unpack it with uncompress"),
    (b"PK\x03\x04", "a zip archive", "unpack it with unzip"),
    (b"\xff\xfe", "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"),
)
_TAR = b"ustar"  # at byte 257
_RESERVATIONS = (b";B;", b";U;", b";K;", b";Y;")  # of PBS Pro, which names their owner


class WrongFormatError(UnreadableError):
    """A file is not in the named format, or in no known one."""


def is_blank(content: Content, final: bool) -> bool:
    """Return whether a file has only comments so far; one that is not ``final`` may end within a line.

    Its position is the beginning afterwards.
    """
    beginning = content.beginning(BEGINNING_BYTES)
    if not final and not beginning.startswith(b"{"):
        beginning = beginning[: beginning.rfind(b"\n") + 1]
    return all(not line.strip() or line.startswith(b"#") for line in beginning.splitlines())


def guess_format(content: Content) -> AccountingFormat:
    """Return the format of a file; its position is the beginning afterwards.

    Raises:
        WrongFormatError: it is of none, and the message shows the first line, or of another command.
    """
    beginning = content.beginning(BEGINNING_BYTES)
    _check_output(beginning)
    found = _likely(beginning)
    if found is None:
        line = next((line for line in beginning.splitlines() if line.strip()), b"")
        if b"\0" in line:
            raise WrongFormatError("a binary file", "logs are text, plain or compressed by gzip; leave this file out")
        first = _shown(line)
        shown = f"it begins with {first!r}" if first else "it is empty"
        named = ", ".join(ACCOUNTING_FORMATS)
        todo = f"Name one: {named}; for other schedulers, convert it to a table (docs/operate/sources.md)"
        if len(_OF_SACCT.findall(first)) > 1:
            todo = f"For columns of sacct, run {SACCT_TEXT}"
        elif first.count("|") > 2:
            todo = f"If sacct printed it, run it again without --noheader: {SACCT_TEXT}"
        raise WrongFormatError("no known format", f"{shown}. {todo}")
    return found


def _likely(beginning: bytes) -> AccountingFormat | None:
    tried = [name for name in ACCOUNTING_FORMATS if _MARKS.get(name, b"") in beginning]
    trials = {name: _try(name, beginning)[0] for name in tried}
    read = [name for name, count in trials.items() if count]
    own = [name for name in read if _key_of_another(name, beginning) is None]
    return max(own or read, key=lambda name: trials[name], default=None)


def check_format(content: Content, named: AccountingFormat, whole: bool = False) -> None:
    """Check that the file may be of the format; its position is the beginning afterwards.

    Refuse a file that shows another format, and a ``whole`` file without a readable record at its beginning.

    Raises:
        WrongFormatError: it is of another one, and the message has the line that shows it, or of another command.
    """
    beginning = content.beginning(BEGINNING_BYTES)
    _check_output(beginning)
    if named == "slurm" and (missing := reader_of(named, beginning).missing):
        raise WrongFormatError("a text of sacct that lacks columns", missing)
    count, refused = _try(named, beginning)
    shown = _key_of_another(named, beginning)
    if not count and refused:
        other = _likely(beginning)
        if other is not None:
            shown = other, refused
        elif whole:
            raise WrongFormatError(f"not {named}", refused)
    if shown is not None:
        raise WrongFormatError(f"not {named} but {shown[0]}", shown[1])


def _check_output(beginning: bytes) -> None:
    for magic, found, command in _PACKED:
        if beginning.startswith(magic):
            raise WrongFormatError(found, f"{command} and import the result")
    if beginning[257:262] == _TAR:
        raise WrongFormatError("a tar archive", "unpack it with tar -x and import the files in it")
    if _OF_QACCT.match(beginning):
        raise WrongFormatError("output of qacct", "give the file $SGE_ROOT/$SGE_CELL/common/accounting")
    if _OF_SQUEUE.match(beginning):
        raise WrongFormatError("output of squeue", "give what sacct prints")


def _try(name: AccountingFormat, beginning: bytes) -> tuple[int, str]:
    """Return how many of the first records are readable, and the first unreadable line, with the reason."""
    read, refused, number = 0, "", 0
    try:
        reader = reader_of(name, beginning)
        for chunk in reader.split(io.BytesIO(beginning).read):
            for record in chunk.records:
                number += 1
                if number > TRIED:
                    return read, refused
                try:
                    read += reader.event(record).kind != _COMMENT
                except AccountingError as error:
                    if record.complete:
                        refused = refused or f"line {number}: {error.reason}: {_shown(record.data)!r}"
    except AccountingError as error:
        return 0, f"line 1: {error.reason}: {_shown(beginning)!r}"
    return read, refused


def _key_of_another(name: AccountingFormat, beginning: bytes) -> tuple[AccountingFormat, str] | None:
    """Return the other format whose own key is in the file, and its line; None if this one's own key is there."""
    found = [
        (other, f"line {number} has {key.decode().strip()} {_shown(line)!r}")
        for number, line in enumerate(beginning.splitlines()[:TRIED] if name in _KEYS else (), 1)
        if not any(kind in line[:40] for kind in _RESERVATIONS)
        for other, keys in _KEYS.items()
        for key in keys
        if key in line
    ]
    return None if name in dict(found) else next(iter(found), None)


def _shown(data: bytes) -> str:
    return printable(data[:_SHOWN].split(b"\n", 1)[0])
