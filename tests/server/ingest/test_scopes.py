"""Agents' tokens write only as their cluster and nodes, and no cluster appears by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests import make
from tests.make import Jobsight

from jobsight_server.auth.node_names import NodeNames, NodeNamesError
from jobsight_server.auth.tokens import create_token, list_tokens
from jobsight_server.ground.errors import UserError
from jobsight_server.queries.rejected import rejected_data
from jobsight_server.storage.clusters import stored_clusters

NOW = 1_700_000_100.0
ENDED = text(
    'INSERT INTO jobs (cluster, job_id, start, state, "user", recorded_at, profiled) '
    "VALUES (:cluster, :job_id, 0, 'ended', 'u', 0, true)"
)

Post = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def now() -> list[float]:
    """The writer's clock, which a test may move."""
    return [NOW]


@pytest.fixture
def post(engine: Engine, now: list[float], serve_writer: Callable[..., Any]) -> Iterator[Post]:
    """Send the golden batch, changed, with a token; the writer knows the clusters alpha and beta."""
    with serve_writer(engine, lambda: now[0], clusters=("alpha", "beta")) as writer:

        def send(token: str, **changes: Any) -> tuple[int, dict[str, Any]]:
            answer: tuple[int, dict[str, Any]] = writer.post(make.batch(**changes), token)
            writer.committer.flush()
            return answer

        yield send


def token(engine: Engine, cluster: str | None = None, nodes: str | None = None) -> str:
    with engine.begin() as connection:
        return create_token(connection, "agent", "", 0.0, cluster, nodes)[1]


def rejected(engine: Engine) -> dict[str, int]:
    return {label: n for (name, label), n in make.counts(engine).items() if name == "batches_rejected"}


@pytest.mark.storage
def test_a_token_writes_as_its_cluster_and_nodes_alone(engine: Engine, post: Post) -> None:
    own = token(engine, "alpha", "n[001-016]")
    assert post(own, node="n016")[0] == 200
    for changes in ({"node": "n017"}, {"node": "n16"}, {"node": "n016 "}, {"cluster": "beta", "node": "n016"}):
        status, answer = post(own, **changes)
        assert status == 403, changes
        assert "this token is for cluster 'alpha', nodes n[001-016]" in answer["error"]
        shown = {"cluster": "alpha", **changes}
        assert f"cluster {shown['cluster']!r}, node {shown['node']!r}" in answer["error"]
    assert rejected(engine) == {"not this token's cluster or node": 4}
    assert make.rows(engine, "SELECT cluster, name FROM nodes") == [("alpha", "n016")]
    kept = make.rows(engine, "SELECT cluster, node, bytes FROM quarantine ORDER BY id")
    assert kept == [("alpha", "n017", 0), ("alpha", "n16", 0), ("alpha", "n016 ", 0), ("beta", "n016", 0)]


def test_whose_batches_are_refused_is_in_the_log_and_in_the_list(
    engine: Engine, post: Post, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """An agent tries again and again: an hourly line and example for each cluster and node, with others' number."""
    secret = token(engine)
    for seconds in (0, 5, 59, 61, 3599, 3601):
        now[0] = NOW + seconds
        assert post(secret, cluster="alhpa", node="n1")[0] == 403
    assert post(secret, cluster="alhpa", node="n2")[0] == 403
    lines = [record.getMessage() for record in caplog.records if "was refused with 403" in record.getMessage()]
    start = "a batch of cluster 'alhpa', node {!r} was refused with 403: cluster 'alhpa' is not declared"
    assert [line.startswith(start.format(node)) for line, node in zip(lines, ("n1", "n1", "n2"), strict=True)] == [
        True
    ] * 3
    assert [line.partition("; 4 others since the last such line")[1] != "" for line in lines] == [False, True, False]
    with engine.connect() as connection:
        found = rejected_data(connection)
        received = connection.execute(text("SELECT value FROM event_counts WHERE name = 'batches_received'")).scalar()
    listed = [(row.cluster, row.node, row.bytes, row.reason[:31]) for row in found.quarantine]
    reason = "cluster 'alhpa' is not declared"
    assert listed == [("alhpa", "n2", 0, reason), ("alhpa", "n1", 0, reason), ("alhpa", "n1", 0, reason)]
    assert (found.quarantine_kept, received) == (0, 7)
    for node in range(200):
        assert post(secret, cluster="alhpa", node=f"x{node}")[0] == 403
    with engine.connect() as connection:
        assert len(rejected_data(connection, 1000).quarantine) == 2 + 19
    assert sum("was refused with 403" in record.getMessage() for record in caplog.records) == 2 + 19


def test_a_cluster_that_is_not_declared_is_refused_by_name(engine: Engine, post: Post) -> None:
    for secret in (token(engine), token(engine, "alhpa")):
        status, answer = post(secret, cluster="alhpa")
        assert status == 403
        assert "cluster 'alhpa' is not declared; declared: alpha, beta." in answer["error"]
    assert rejected(engine) == {"cluster not declared": 2}
    with engine.connect() as connection:
        assert stored_clusters(connection) == set()
    assert post(token(engine), cluster="beta")[0] == 200


def test_clusters_of_an_earlier_database_and_its_tokens_go_on(engine: Engine, post: Post) -> None:
    """A database of release 0.1: a token without a cluster, jobs and nodes of clusters not in the settings."""
    secret = token(engine)
    with engine.begin() as connection:
        for number, cluster in enumerate(("old", "older", "old")):
            connection.execute(ENDED, {"cluster": cluster, "job_id": str(number)})
    assert post(secret, cluster="old")[0] == 200
    assert post(secret, cluster="older", node="x")[0] == 200
    with engine.connect() as connection:
        assert stored_clusters(connection) == {"old", "older"}


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("n1", "n1", "n01 n11 N1 n"),
        ("n[001-128]", "n001 n010 n128", "n000 n129 n1 n0001 n128x xn128 n٠٠١"),
        ("n[1-128]", "n1 n99 n128", "n001 n0 n129"),
        ("n[08-110]", "n08 n99 n100 n110", "n8 n008 n0100 n111"),
        ("login[1,3,5-6],fat", "login1 login3 login6 fat", "login2 login4 login7 fat1 login"),
        (
            "r[1-2]n[01-03].example.org",
            "r1n01.example.org r2n03.example.org",
            "r3n01.example.org r1n04.example.org r1n01",
        ),
        (" a , b[1-2] ", "a b2", "c b3"),
        ("n[1-999999999]", "n1 n999999999", "n9999999999 n0"),
    ],
)
def test_node_names(text: str, inside: str, outside: str) -> None:
    names = NodeNames(text)
    assert [name for name in inside.split() if name not in names] == []
    assert [name for name in outside.split() if name in names] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty name"),
        ("a,,b", "an empty name"),
        ("n[1-3", "a '\\[' is not closed"),
        ("n1]", "unexpected '\\]' at position 3"),
        ("n[[1]]", "unexpected '\\[' at position 3"),
        ("n[3-1]", "runs backwards"),
        ("n[]", r"\[\] is not a range"),
        ("n[a-b]", "is not a range"),
        ("n[1-3-5]", "is not a range"),
        ("n[1-12345678901]", "at most 9 digits"),
        ("n[1-2][3-4]", "between two ranges"),
        ("n*", "'n\\*' is not part of a node name"),
        ("n 1", "is not part of a node name"),
        (",".join("n" * 600), "600 names"),
        ("n" * 5000, "5000 characters"),
    ],
)
def test_what_are_no_node_names(text: str, message: str) -> None:
    with pytest.raises(NodeNamesError, match=message):
        NodeNames(text)


@pytest.mark.storage
def test_the_command_binds_tokens(jobsight: Jobsight, engine: Engine) -> None:
    tokens = partial(jobsight, "token", on=engine)
    create = partial(tokens, "create", "--role", "agent")
    for options, message in (
        ((), "an agent's token is for one cluster: give --cluster NAME"),
        (("--nodes", "n1"), "give --cluster NAME"),
        (("--any-cluster", "--cluster", "alpha"), "give one or the other"),
        (("--cluster", "alpha", "--nodes", "n[2-1]"), "--nodes 'n[2-1]': [2-1] runs backwards"),
    ):
        out, said = create(*options, status=1)
        assert (out, message in said) == ("", True), said
    refused = tokens("create", "--role", "scheduler", "--cluster", "alpha", status=1).err
    assert "of role scheduler cannot send samples" in refused
    token(engine)
    create("--cluster", "alpha", "--nodes", "n[001-128]", "--name", "rack")
    create("--any-cluster")
    lines = tokens("list").out.splitlines()[1:]
    assert ["any cluster" in line for line in lines] == [True, False, True]
    assert "alpha n[001-128]" in lines[1]
    with engine.connect() as connection:
        assert [(row.cluster, row.nodes) for row in list_tokens(connection)][1] == ("alpha", "n[001-128]")
    make.execute(engine, ENDED, {"cluster": "alpha", "job_id": "1"})
    assert "not declared" not in create("--cluster", "alpha").err
    assert "cluster 'alhpa' is not declared yet (known: alpha)" in create("--cluster", "alhpa").err


def test_only_agents_are_bound(sqlite_engine: Engine) -> None:
    with sqlite_engine.begin() as connection, pytest.raises(UserError, match="role admin cannot send samples"):
        create_token(connection, "admin", "", 0.0, "alpha")
    with sqlite_engine.begin() as connection, pytest.raises(UserError, match="without a cluster"):
        create_token(connection, "agent", "", 0.0, None, "n1")
