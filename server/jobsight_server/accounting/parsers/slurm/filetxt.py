"""The file that Slurm's plugin jobcomp/filetxt writes: a line when a job ends, or several if its name holds newlines.

Nothing in it is quoted, and users choose the job's name and directory. A record begins with a job id and a user at the
beginning of a line. Slurm writes the fields in one order, so a record in which they can be found in two ways is
rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from jobsight_server.accounting.files import LONGEST_ROW, Chunk, ChunkBuilder, RawRecord, lines_of
from jobsight_server.accounting.parsers.slurm.job import event_of
from jobsight_server.accounting.runs import AccountingError, JobEvent

_BEGIN = re.compile(rb"JobId=[0-9]+ UserId=")
_WHOLE = re.compile(rb" NodeCnt=[0-9]+ .*WorkDir=", re.DOTALL)
_HEAD = (
    r"JobId=(?P<JobIDRaw>[0-9]+) UserId=(?P<User>[^()\n]*)\([0-9]+\) GroupId=(?P<Group>[^()\n]*)\([0-9]+\) "
    r"Name=(?P<JobName>.*"
)
_MIDDLE = (
    r") JobState=(?P<State>\S+) Partition=(?P<Partition>\S*) TimeLimit=(?P<TimelimitRaw>\S+) StartTime=(?P<Start>\S+) "
    r"EndTime=(?P<End>\S+) NodeList=(?P<NodeList>\S*) NodeCnt=(?P<NNodes>[0-9]+)(?: ProcCnt=(?P<AllocCPUS>[0-9]+))? "
    r"WorkDir=(?P<rest>.*"
)
_FIRST = re.compile(f"{_HEAD}?{_MIDDLE})", re.ASCII | re.DOTALL)
_LAST = re.compile(f"{_HEAD}{_MIDDLE})", re.ASCII | re.DOTALL)
_MORE = re.compile(r" (Tres|Account|SubmitTime|EligibleTime|DerivedExitCode|ExitCode)=(\S*)", re.ASCII)
_COLUMNS = {"Tres": "ReqTRES", "SubmitTime": "Submit", "EligibleTime": "Eligible"}
"""Names that differ from those of sacct's columns."""


def split(read: Callable[[int], bytes], tail: bytes, most_records: int) -> Iterator[Chunk]:
    """Yield chunks of records; see ``RecordReader``. The last one is whole if its last line is."""
    built = ChunkBuilder(tail, most_records)
    held: list[bytes] = []
    size = 0
    for line in lines_of(read):
        if held and (_BEGIN.match(line) or size > LONGEST_ROW):
            _add(held, built)
            held, size = [], 0
            yield from built.full()
        held.append(line)
        size += len(line)
    if held:
        # A record that may continue is a chunk of its own, so that a follower of the file can wait for the rest.
        yield from built.rest()
        _add(held, built)
    yield from built.rest()


def _add(lines: list[bytes], built: ChunkBuilder) -> None:
    data = b"".join(lines)
    if data.strip():
        complete = data.endswith(b"\n") and _WHOLE.search(data) is not None
        built.add(RawRecord(data, len(data), complete), data)
    else:
        built.skip(data)


def parse_record(text: str) -> JobEvent:
    """Return the event in a record.

    Raises:
        AccountingError: it cannot be used, for the given reason.
    """
    found, last = _FIRST.fullmatch(text.rstrip()), _LAST.fullmatch(text.rstrip())
    if found is None or last is None:
        raise AccountingError("not a record of jobcomp/filetxt", text)
    if found.groups() != last.groups():
        raise AccountingError("the job's name or directory contains what looks like further fields", text)
    row = found.groupdict("")
    # The last of each, which Slurm writes.
    more = {_COLUMNS.get(name, name): value for name, value in _MORE.findall(row.pop("rest"))}
    state = row["State"].partition("+")[0]
    # A requeued job is about to wait again when its run is written.
    row["State"] = "REQUEUED" if state == "PENDING" else state
    return event_of([{"Submit": "", **row, **more}])
