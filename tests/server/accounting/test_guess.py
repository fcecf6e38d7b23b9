"""Which scheduler wrote a file, and a file that grows and is rotated."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.make import Jobsight
from tests.server.accounting.conftest import counted, rows

from jobsight_server.accounting.files import Content
from jobsight_server.accounting.formats import open_reader
from jobsight_server.accounting.guess import WrongFormatError, check_format, guess_format
from jobsight_server.accounting.load import LoadReport
from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.settings.declared import AccountingFormat, AccountingSource

TORQUE = (
    "09/08/2011 00:02:21;E;1.s;user=ann group=g jobname=j queue=q ctime=1315413989 qtime=1315413989 etime=1315413989 "
    "start=1315415070 owner=ann@login exec_host=n1/0 session=1 end=1315458141 Exit_status=0 "
)
PBSPRO = (
    '11/20/2026 20:00:50;E;1.pbs1;user=ann group=g account="a b" jobname=j queue=q ctime=1795204838 qtime=1795204838 '
    "etime=0 start=1795204838 exec_host=n2/0*2 exec_vnode=(n2:ncpus=2) session=1 end=1795204850 Exit_status=0 "
)
GRIDENGINE = (
    "all.q:n1:g:ann:cfd:7:sge:0:1790000000:1790000100:1790000160:0:0:60:1:1:4096:0:0:0:0:0:0:0:0:0:0:0:0:0:0:"
    "NONE:d:NONE:1:0:2.0:0:0:NONE:0:NONE:4096:0:0"
)
CONDOR = (
    '[\n{\n  "ClusterId": 7,\n  "CompletionDate": 1790000160,\n  "JobCurrentStartDate": 1790000100,\n'
    '  "JobStatus": 4,\n  "Owner": "ann",\n  "ProcId": 0\n}\n]'
)
LSF = (
    '"JOB_FINISH" "10.1" 1790000160 7 1000 2 1 1790000000 0 0 1790000100 "ann" "normal" "" "" "" "login" "" "" "" "" '
    '"1790000000.7" 0 1 "n1" 64 60.0 "" "sleep 60" 0.1 0.1 ' + "0 " * 17 + '"" "default" 0 1 "" "" 0 2048 0'
)
TABLE = "job_id,user,start_epoch_s,end_epoch_s\n1,ann,1790000000,1790000060"
TABLE_JSON = '{"job_id": 1, "user": "ann", "start_epoch_s": 1790000000}'
NEXTFLOW = "task_id\thash\tname\tsubmit\tduration\trealtime\n1\t7b/3753ff\tA (s)\t1790000000000\t3s\t1s"
SNAKEMAKE = "s\th:m:s\tmax_rss\tmax_vms\n1.42\t0:00:01\t63.95\t68.14"
SNAKEMAKE_JSON = '{"cpu_time": 0.05, "h:m:s": "0:00:01", "max_rss": 64.1, "s": 1.4}'
BY_OWNER: dict[str, AccountingFormat] = {NEXTFLOW: "nextflow", SNAKEMAKE: "snakemake", SNAKEMAKE_JSON: "snakemake"}
WITH_SELECT = TORQUE.replace("exec_host", "Resource_List.select=1 exec_host")
WRITTEN: dict[str, AccountingFormat] = {
    TORQUE: "torque",
    WITH_SELECT: "torque",
    PBSPRO: "pbspro",
    GRIDENGINE: "gridengine",
    f"# Version: 8.1.9\n#\n{GRIDENGINE}": "gridengine",
    f"rubbish\n{TORQUE}": "torque",
    CONDOR: "condor",
    LSF: "lsf",
    TABLE: "table",
    TABLE_JSON: "table",
}


def written(directory: Path, text: str, packed: bool = False) -> Path:
    file = directory / "log"
    data = f"{text}\n".encode()
    file.write_bytes(gzip.compress(data) if packed else data)
    return file


@pytest.mark.parametrize("text", WRITTEN)
def test_a_byte_order_mark_latin_1_and_carriage_returns(tmp_path: Path, text: str) -> None:
    """As files come from other systems and from old ones."""
    file, lines = tmp_path / "log", text.replace("ann", "zo\xeb").splitlines()
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines, ""]).encode("latin-1"))
    with Content(file) as content:
        assert guess_format(content) == WRITTEN[text]
        reader = open_reader(WRITTEN[text], content)
        (chunk,) = reader.split(content.read)
    runs = [event.run for event in map(reader.event, chunk.records[-1:])]
    assert [run and run.user for run in runs] == ["zo\xeb"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("text", WRITTEN | BY_OWNER)
def test_the_format_is_guessed(tmp_path: Path, text: str, packed: bool) -> None:
    expected = (WRITTEN | BY_OWNER)[text]
    with Content(written(tmp_path, text, packed)) as content:
        assert guess_format(content) == expected
        check_format(content, expected)


QACCT = f"{'=' * 62}\nqname        all.q\nhostname     sge1\n"
SQUEUE = '{\n "meta": {"plugin": {"type": "openapi\\/%s", "name": "x"}}, "jobs": []}'
TAR = b"x" * 257 + b"ustar\x0000" + bytes(248)


@pytest.mark.parametrize(
    ("data", "named", "shown"),
    [
        (lzma.compress(TORQUE.encode()), None, "compressed by xz: unpack it with xz -d"),
        (bz2.compress(TORQUE.encode()), "torque", "compressed by bzip2: unpack it with bunzip2"),
        (TABLE.encode("utf-16"), None, "UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8"),
        (TAR, "torque", "a tar archive: unpack it with tar -x"),
        ("free text", None, "it begins with 'free text'"),
        ("12|x|ann|COMPLETED|00:10:00\n", None, "without --noheader: sacct -aDP"),
        (b"SQLite format 3\0\x10", None, "^a binary file: .*leave this file out$"),
        ("", None, "it is empty"),
        (PBSPRO, "torque", "not torque but pbspro: line 1 has exec_vnode= '11/20/2026"),
        (TORQUE, "pbspro", "not pbspro but torque: line 1 has owner="),
        (WITH_SELECT, "pbspro", "not pbspro but torque: line 1 has owner="),
        (f"#\n{GRIDENGINE}", "torque", "not torque but gridengine: line 1: fewer than four fields"),
        (TORQUE, "gridengine", "not gridengine but torque: line 1: fewer than 45 fields separated by colons: '09/08"),
        (TABLE, "gridengine", "not gridengine but table: line 1: fewer than 45 fields.*'job_id,user"),
        (GRIDENGINE, "table", "not table but gridengine: line 1: unknown column"),
        (QACCT, None, r"^output of qacct: give the file \$SGE_ROOT"),
        (QACCT, "gridengine", r"^output of qacct: give the file \$SGE_ROOT"),
        (SQUEUE % "v0.0.38", None, "^output of squeue: give what sacct prints"),
        (SQUEUE % "slurmctld", "slurm", "^output of squeue"),
    ],
)
def test_what_is_refused_and_why(tmp_path: Path, data: str | bytes, named: AccountingFormat | None, shown: str) -> None:
    file = tmp_path / "log"
    file.write_bytes(data if isinstance(data, bytes) else f"{data}\n".encode())
    with Content(file) as content, pytest.raises(WrongFormatError, match=shown):
        guess_format(content) if named is None else check_format(content, named)


def test_what_shows_no_other_format_is_read(tmp_path: Path) -> None:
    """Its lines may be rejected one by one."""
    named: dict[str, AccountingFormat] = {"free text": "torque", "": "torque", SQUEUE % "dbv0.0.38": "slurm"}
    for text, log_format in named.items():  # the last is that of sacct
        with Content(written(tmp_path, text)) as content:
            check_format(content, log_format)


def test_import_says_what_it_guessed(sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight) -> None:
    file, onto = written(tmp_path, GRIDENGINE), ("--cluster", "c")
    out = jobsight("import", file, *onto, on=sqlite_engine).out
    assert (f"{file}: gridengine (guessed)" in out, "1 new run, 1 profiled" in out) == (True, True)
    assert "guessed" not in jobsight("import", "gridengine", file, *onto, on=sqlite_engine).out
    found = jobsight("import", file, "--json", *onto, on=sqlite_engine).json
    assert found["formats"] == {str(file): "gridengine"}


def test_import_refuses_a_wrong_format_before_anything_is_read(
    sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight
) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(f"{TORQUE}\n")
    wrong.write_text(f"{PBSPRO}\n")
    said = jobsight("import", "torque", right, wrong, "--cluster", "c", on=sqlite_engine, status=1).err
    assert f"{wrong}: not torque but pbspro: line 1 has exec_vnode=" in said
    assert rows(sqlite_engine, "job_id") == []


def test_the_summary_has_words_and_no_line_for_what_there_is_none_of(
    sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight
) -> None:
    file = written(tmp_path, f"# a comment\n{GRIDENGINE}")
    out = jobsight("import", "gridengine", file, "--cluster", "c", on=sqlite_engine).out
    lines = ["into cluster c", "2 lines of 1 file: 1 ended (E), 1 comment", "1 run of 1 job and 1 user ended"]
    assert out.splitlines() == [*lines, "1 new run, 1 profiled"]
    assert "into cluster c, the only one known\n" in jobsight("import", file, on=sqlite_engine).out


def follow(engine: Engine, file: Path, named: AccountingFormat | None = "gridengine") -> LoadReport:
    return follow_once(engine, AccountingSource("c", file=file, format=named), lambda: 1.9e9)


def record(number: int) -> str:
    return GRIDENGINE.replace(":7:", f":{number}:", 1) + "\n"


@pytest.mark.storage
@pytest.mark.parametrize("names", [("accounting.1", "accounting.2"), ("accounting-20261120", "accounting-20261121.gz")])
def test_a_file_that_grows_is_followed_across_rotation(engine: Engine, tmp_path: Path, names: tuple[str, str]) -> None:
    file = tmp_path / "accounting"
    file.write_text("# Version: 8.1.9\n" + record(1) + record(2)[:40])
    assert follow(engine, file).kinds == {"comment": 1, "E": 1}
    file.write_text("# Version: 8.1.9\n" + record(1) + record(2) + record(3))
    first, second = (tmp_path / name for name in names)
    first.write_bytes(file.read_bytes())
    file.write_text(record(4))
    assert follow(engine, file).kinds == {"E": 3}, "the rest of the old file, then the new one"
    content = (record(4) + record(5)).encode()
    second.write_bytes(gzip.compress(content) if second.suffix == ".gz" else content)
    file.write_text(record(6))
    (tmp_path / "accounting.lock").write_text("not a log")
    (tmp_path / "accountings.1").write_text("not a log")
    report = follow(engine, file)
    assert (report.kinds, report.unreadable) == ({"E": 2}, {})
    assert rows(engine, "job_id") == [("1",), ("2",), ("3",), ("4",), ("5",), ("6",)]
    assert follow(engine, file).lines == 0
    assert counted(engine, "accounting_lines") == {"comment": 1, "E": 6}


def test_following_guesses_and_refuses_too(sqlite_engine: Engine, tmp_path: Path) -> None:
    file = written(tmp_path, GRIDENGINE)
    report = follow(sqlite_engine, file, "torque")
    assert (report.lines, list(report.unreadable)) == (0, [str(file)])
    assert report.unreadable[str(file)].startswith("not torque but gridengine: line 1: fewer than four fields")
    assert counted(sqlite_engine, "accounting_unreadable") == {"not torque but gridengine": 1}
    assert follow(sqlite_engine, file, None).kinds == {"E": 1}
    assert rows(sqlite_engine, "job_id") == [("7",)]
    assert follow(sqlite_engine, tmp_path / "absent" / "log").unreadable


@pytest.mark.parametrize("beginning", ["", "# Version: 8.1.9\n#\n", "# Version: 8.1.9\n" + GRIDENGINE[:40]])
def test_a_format_is_guessed_once_there_is_a_record(sqlite_engine: Engine, tmp_path: Path, beginning: str) -> None:
    file = tmp_path / "accounting"
    file.write_text(beginning)
    report = follow(sqlite_engine, file, None)
    assert (report.lines, report.unreadable) == (0, {})
    file.write_text(f"# Version: 8.1.9\n{GRIDENGINE}\n")
    assert follow(sqlite_engine, file, None).kinds["E"] == 1
