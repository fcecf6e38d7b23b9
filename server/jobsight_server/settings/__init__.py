"""Settings of the server: their declarations (``declared``), and the sources of their values (``load``)."""

from __future__ import annotations

from jobsight_server.settings.declared import (
    ACCOUNTING_FORMATS,
    LONGEST_NAME,
    AccountingFormat,
    AccountingSource,
    Section,
    Settings,
)
from jobsight_server.settings.load import SETTINGS, Setting, SettingsError, load_settings, settings_in

__all__ = [
    "ACCOUNTING_FORMATS",
    "LONGEST_NAME",
    "SETTINGS",
    "AccountingFormat",
    "AccountingSource",
    "Section",
    "Setting",
    "Settings",
    "SettingsError",
    "load_settings",
    "settings_in",
]
