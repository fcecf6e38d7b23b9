"""The output of TORQUE's ``qstat -x``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from jobsight_server.accounting.parsers.qstat import Qstat
from jobsight_server.accounting.parsers.quantities import epoch
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.text import text_of

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _attributes(output: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the attributes of each job, by its id; without any jobs, TORQUE prints nothing.

    Raises:
        AccountingError: the output is no such document.
    """
    text = _NO_XML.sub("?", text_of(output)).strip()
    if not text:
        return
    if "<!" in text:  # TORQUE writes no declarations; entities could grow without limit
        raise AccountingError("its output has a declaration, which qstat -x does not write")
    try:
        document = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        raise AccountingError("its output is not XML", str(error)) from None
    for job in document.iter("Job"):
        found = {part.tag: part.text or "" for part in job if not len(part)}
        found |= {f"Resource_List.{part.tag}": part.text or "" for part in job.findall("Resource_List/*")}
        yield found.get("Job_Id", ""), found


QSTAT = Qstat(("-x",), _attributes, epoch)
