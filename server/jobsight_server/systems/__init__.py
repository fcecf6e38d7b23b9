"""The placing systems, one package each; none imports another, and the core imports none.

They are found by entry points, ``jobsight.systems``, so that another distribution can bring one, and the core is
complete without them. Each has ``pages`` (routes and pages), ``tables``, ``periodic`` (background work), ``settings``
and its commands.
"""
