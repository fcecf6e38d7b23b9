"""Addresses of the pages of things whose names come from outside and may hold any character."""

from __future__ import annotations

from flask import url_for


def user_url(cluster: str, user: str) -> str:
    return _url("user", cluster, user)


def job_url(cluster: str, job_id: str) -> str:
    return _url("job", cluster, job_id)


def node_url(cluster: str, node: str) -> str:
    return _url("node", cluster, node)


def _url(noun: str, cluster: str, name: str) -> str:
    # A path cannot carry every name: browsers resolve `.` and `..`, proxies merge `//`, and a cluster with a slash
    # could not be told from the name after it; line ends are cut off on the way. Such names travel in the query.
    segments = [cluster, *name.split("/")]
    plain = (cluster + name).isprintable() and "/" not in cluster and "\\" not in name
    if not plain or any(segment in {"", ".", ".."} for segment in segments):
        return url_for(f"pages.{noun}_by_query", cluster=cluster, name=name)
    return url_for(f"pages.{noun}", cluster=cluster, name=name)
