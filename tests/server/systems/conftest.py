"""The site that all pages are tested on."""

from tests.server.web.conftest import another, restarted, serve, served

__all__ = ["another", "restarted", "serve", "served"]
