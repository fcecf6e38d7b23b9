"""The placing systems, one package each; none imports another, and the core imports none.

``listed`` has the table of them. Each has ``pages`` (routes and pages), ``tables``, ``periodic`` (background work),
``settings`` and its commands.
"""
