"""Settings of the server: their declarations (``declared``), and the sources of their values (``load``)."""

from __future__ import annotations

from jobsight_server.settings.declared import ACCOUNTING_FORMATS, AccountingFormat, AccountingSource, Settings
from jobsight_server.settings.load import LONGEST_NAME, SETTINGS, Setting, SettingsError, load_settings

__all__ = [
    "ACCOUNTING_FORMATS",
    "LONGEST_NAME",
    "SETTINGS",
    "AccountingFormat",
    "AccountingSource",
    "Setting",
    "Settings",
    "SettingsError",
    "load_settings",
]
