"""The commands that list each scheduler's queue: their arguments, and the readers of their output."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jobsight_server.accounting.command_output import CommandError, CommandOutput
from jobsight_server.accounting.parsers import qstat_json, qstat_xml
from jobsight_server.accounting.parsers.slurm import squeue
from jobsight_server.accounting.queue import Listed
from jobsight_server.accounting.runs import AccountingError

_PIECE = 1 << 16
_LONGEST_VALUE = 1 << 16
_LONGEST_DOCUMENT = 1 << 29


Run = Callable[[Sequence[str]], CommandOutput]
"""Starts a command."""


@dataclass(frozen=True, slots=True)
class QueueCommand:
    """``read`` adds the arguments to a command, runs it, and returns the listed jobs.

    It raises CommandError, perhaps after some of them. ``name`` is the source's name, like that of a file.
    """

    name: str
    read: Callable[[Run, Sequence[str]], Iterator[Listed]]


def squeue_rows(run: Run, command: Sequence[str]) -> Iterator[list[bytes]]:
    """Yield the values of each job that ``squeue`` lists, in the order of ``squeue.WIDTHS``.

    The mark between them is drawn for each call, so that no name can contain it.

    Raises:
        CommandError: the command failed, or its output does not end after a job.
    """
    mark = f"|{secrets.token_hex(8)}|"
    end, columns = mark.encode(), len(squeue.WIDTHS)
    left, row = b"", list[bytes]()
    with run((*command, *squeue.arguments(mark))) as output:
        while piece := output.read(_PIECE):
            *values, left = (left + piece).split(end)
            for value in values:
                row.append(value)
                if len(row) == columns:
                    yield row
                    row = []
            if len(left) > _LONGEST_VALUE:
                raise CommandError("its output is not in the form that was asked for")
        if output.stopped:
            return
        output.finish()
    if row or left.strip():
        raise CommandError("its output is not in the form that was asked for, or ends within a job")


def _squeue(run: Run, command: Sequence[str]) -> Iterator[Listed]:
    return map(squeue.listed, squeue_rows(run, command))


def _whole(
    more: Sequence[str], entries: Callable[[bytes], Iterator[Listed]]
) -> Callable[[Run, Sequence[str]], Iterator[Listed]]:
    def read(run: Run, command: Sequence[str]) -> Iterator[Listed]:
        document = bytearray()
        with run((*command, *more)) as output:
            while piece := output.read(_PIECE):
                document += piece
                if len(document) > _LONGEST_DOCUMENT:
                    raise CommandError(f"its output has more than {_LONGEST_DOCUMENT} bytes")
            if output.stopped:
                return
            output.finish()
        try:
            yield from entries(bytes(document))
        except AccountingError as error:
            raise CommandError(error.reason, error.message) from error

    return read


QUEUE_COMMANDS = {
    "slurm": QueueCommand("command squeue", _squeue),
    "pbspro": QueueCommand("command qstat", _whole(qstat_json.ARGUMENTS, qstat_json.entries)),
    "torque": QueueCommand("command qstat", _whole(qstat_xml.ARGUMENTS, qstat_xml.entries)),
}
"""Queue command by the format of the cluster's accounting."""
