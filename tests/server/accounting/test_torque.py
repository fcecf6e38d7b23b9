from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_server.accounting.parsers.torque import parse_line


@settings(deadline=None, max_examples=200)
@given(
    st.text(st.characters(min_codepoint=33, exclude_categories=["Cc", "Cs", "Z"]), min_size=1, max_size=40),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40),
)
def test_whatever_the_job_and_the_account_are_called_the_numbers_stay(name: str, account: str) -> None:
    run = parse_line(
        f"09/08/2011 00:02:21;E;7.s;user=ann group=staff account={account} jobname={name} queue=batch ctime=1315413989 "
        "start=1315415070 exec_host=n1/0*3 end=1315458141 resources_used.mem=5kb"
    ).run
    assert run is not None
    found = (run.user, run.name, run.start, run.end, run.processors, run.used_memory_bytes)
    assert found == ("ann", name, 1315415070.0, 1315458141.0, 3, 5120)
