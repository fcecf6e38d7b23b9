"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, not of the code: on busy cores Hypothesis' own limits fail.
# Fixtures that last for all examples of a test are real databases and servers, which is what we want.
settings.register_profile(
    "jobsight",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("jobsight")
