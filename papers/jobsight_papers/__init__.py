"""The basis of Jobsight's placing systems: published experiments repeated, and their rules on real workloads.

Not part of the wheel. ``python -m jobsight_papers NAME`` runs one; ``docs`` has a page for each.
"""
