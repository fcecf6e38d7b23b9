"""``jobsight serve``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Collection, Sequence
from importlib.util import find_spec

from msgspec.structs import replace

from jobsight_server.auth.client_address import on_this_host
from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.databases import shown_database
from jobsight_server.commands.database import lock_database, open_database
from jobsight_server.front.addresses import check_addresses, tcp_address, unix_path
from jobsight_server.ground.errors import UserError
from jobsight_server.serve.children import note_the_end
from jobsight_server.serve.supervisor import ROLES, addresses_of, supervise
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.clusters import listed
from jobsight_server.storage.lock import ServerLock
from jobsight_server.systems.listed import all_sections


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, sections=all_sections())
    parser.add_argument(
        "--only",
        action="append",
        metavar="ROLE",
        help="run this role only, beside servers with the others on one PostgreSQL: query (any number), "
        "background (one), or writer:CLUSTER,... for the samples of these clusters (one writer per cluster); may be "
        "repeated",
    )
    parser.add_argument(
        "--accounting",
        action="append",
        metavar="CLUSTER=DIRECTORY",
        help="follow the TORQUE accounting files of this cluster in this directory; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    # Before numpy is loaded: threads of BLAS wait busily for products of small matrices, longer than these take.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if find_spec("uvicorn") is None:
        raise ModuleNotFoundError(name="uvicorn")  # once, here, not in every role that is started
    logging.basicConfig(level=logging.INFO, format="%(asctime)s serve %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it reports its plug-ins; an upgrade says so itself
    settings = settings_of(args, all_sections())
    roles = _roles(args.only, settings.declared_clusters)
    if not any(map(_writes, roles)):
        settings = replace(settings, ingest_listen="")  # no writer whose state /ready could ask for
    check_addresses(*addresses_of(roles, settings), owner=settings.socket_owner if "query" in roles else "")
    _check_proxies(settings)
    lock = lock_database(args, shared=args.only is not None)
    try:
        _serve(args, settings, lock, roles)
    finally:
        lock.close()
    return 0


def _check_proxies(settings: Settings) -> None:
    """
    Raises:
        UserError: any account of this host could connect as a trusted proxy and name users.
    """
    if not settings.access.login_header or settings.access.no_local_users:
        return
    local = on_this_host(settings.trusted_proxies) if tcp_address(settings.listen) else []
    if local:
        raise UserError(
            f"trusted_proxies {local[0]}: every account of this host can connect from there and name any user in "
            f"{settings.access.login_header}. Use a Unix socket for the proxy, as in deploy/nginx-login.conf, or set "
            "no_local_users = true under [access] if only administrators log in on this host"
        )


def _writes(role: str) -> bool:
    return role.partition(":")[0] == "writer"


def _roles(only: Sequence[str] | None, declared: Collection[str]) -> tuple[str, ...]:
    """
    Raises:
        UserError: unknown role, more than one writer, or a writer of an undeclared cluster.
    """
    for role in only or ():
        name, colon, clusters = role.partition(":")
        if name not in ROLES or (name == "writer") != bool(colon) or (colon and not all(clusters.split(","))):
            raise UserError(f"--only {role!r}: choose query, background, or writer:CLUSTER,... with its clusters")
        # A mistyped cluster would have no writer, and its agents would be refused.
        unknown = sorted({*clusters.split(",")} - {*declared}) if colon else []
        if unknown:
            raise UserError(
                f"--only {role!r}: cluster {unknown[0]!r} is not declared; declared: {listed(declared)}. Correct it, "
                "or declare it with --clusters"
            )
    roles = tuple(dict.fromkeys(only or ROLES))
    if sum(map(_writes, roles)) > 1:
        raise UserError("--only: a server has one writer; name all of its clusters at once, as in writer:alpha,beta")
    return roles


def _serve(args: argparse.Namespace, settings: Settings, lock: ServerLock, roles: Sequence[str]) -> None:
    engine = open_database(args)
    engine.dispose()
    stop = note_the_end()
    print(f"jobsight: database {shown_database(engine)}")
    for source in settings.accounting if "background" in roles else ():
        absent = "" if source.sacct or source.place.exists() else " (does not exist yet)"
        print(f"jobsight: following {source.name} as cluster {source.cluster}{absent}")
    sys.stdout.flush()
    supervise(settings, stop, roles, lock.renew, lambda: _say_ready(settings, roles))


def _say_ready(settings: Settings, roles: Sequence[str]) -> None:
    names = {role.partition(":")[0] for role in roles}
    shown = " and ".join(address if unix_path(address) else f"http://{address}" for address in settings.listen)
    pages = [f"API and pages on {shown}"] if "query" in names else []
    samples = [f"samples on http://{settings.ingest_listen}"] if "writer" in names else []
    print(f"jobsight: ready; {', '.join([*pages, *samples]) or 'working in the background'}", flush=True)
