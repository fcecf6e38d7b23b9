"""Ganglia's XML, read into reports of compute servers."""

from __future__ import annotations

import pytest

from jobsight_server.errors import UserError
from jobsight_server.matching.ganglia import read_ganglia

NOW = 1_764_000_000.0
XML = """<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>
<!DOCTYPE GANGLIA_XML [<!ELEMENT GANGLIA_XML (CLUSTER)*><!ATTLIST GANGLIA_XML VERSION CDATA #REQUIRED>]>
<GANGLIA_XML VERSION="3.7.2" SOURCE="gmond">
<CLUSTER NAME="alpha" LOCALTIME="1763999999" OWNER="x" LATLONG="x" URL="x">
<HOST NAME="n1" IP="10.0.0.1" REPORTED="1763999980" TN="12" TMAX="20" LOCATION="1,2,3">
<METRIC NAME="cpu_num" VAL="16" TYPE="uint16" UNITS="CPUs"/><METRIC NAME="load_one" VAL="3.50" TYPE="float"/>
<METRIC NAME="mem_total" VAL="67108864" TYPE="float" UNITS="KB"/><METRIC NAME="mem_free" VAL="33554432" TYPE="float"/>
<METRIC NAME="mem_cached" VAL="16777216" TYPE="float"/><METRIC NAME="mem_buffers" VAL="nan" TYPE="float"/>
<METRIC NAME="os_name" VAL="Linux"/><METRIC NAME="os_release" VAL="5.14"/><METRIC NAME="cpu_speed" VAL="2600"/>
</HOST>
<HOST NAME="n2" REPORTED="1763999900"><METRIC NAME="load_one" VAL="3.50"/></HOST>
</CLUSTER></GANGLIA_XML>
"""


def test_a_host_is_a_compute_server() -> None:
    """By hand: 64 GiB less 32 free and 16 in the cache are 16 in use; 12 s ago."""
    found = read_ganglia(XML.encode(), NOW)
    assert found.skipped == 1
    assert found.reports == [
        {
            "name": "alpha/n1",
            "type": "compute",
            "time": NOW - 12,
            "attributes": {
                "cluster": "alpha",
                "node": "n1",
                "os": "linux",
                "os_version": "5.14",
                "location": "1,2,3",
                "cpu_mhz": 2600.0,
            },
            "capacities": {"slots": {"total": 16.0, "used": 3.5}, "memory_gib": {"total": 64.0, "used": 16.0}},
        }
    ]


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1 or str()};" * 10}">' for n in range(1, 9))
    + "]><GANGLIA_XML>&a8;</GANGLIA_XML>"
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no element found"),
        ("hello", "not Ganglia's XML"),
        ("<html></html>", "no GANGLIA_XML"),
        (XML[:700], "not Ganglia's XML"),
        (BOMB, "declares an entity"),
        ('<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><GANGLIA_XML>&f;</GANGLIA_XML>', "declares an entity"),
        ("<a>" * 100_000, "nested more than 16 deep"),
    ],
)
def test_what_is_not_ganglia_is_refused(content: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        read_ganglia(content.encode(), NOW)
