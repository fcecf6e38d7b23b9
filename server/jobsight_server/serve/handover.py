"""What the supervisor hands to a role, without the libraries that the roles need."""

from __future__ import annotations

import json
from pathlib import Path

from jobsight_server.settings import AccountingSource, Settings

WRITER, QUERY, BACKGROUND = ROLE_NAMES = ("writer", "query", "background")
REFUSED = 3
"""Exit status of a role whose database belongs to another server: starting it again cannot help."""


def settings_to_json(settings: Settings) -> str:
    """One line of JSON that ``settings_from_json`` reads."""
    values = {name: getattr(settings, name) for name in Settings.__slots__ if name != "accounting"}
    sources = [[s.cluster, str(s.directory), s.format] for s in settings.accounting]
    return json.dumps({**values, "accounting": sources})


def settings_from_json(text: str) -> Settings:
    """The settings that ``settings_to_json`` wrote."""
    values = json.loads(text)
    sources = tuple(AccountingSource(cluster, Path(path), form) for cluster, path, form in values.pop("accounting"))
    texts = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Settings(**{**values, **texts}, accounting=sources)
