"""The lists of Unix groups and accounts."""

from __future__ import annotations

from typing import Any

import pytest

from jobsight_server.forecasts.record import Asked
from jobsight_server.queries.groups import user_group_list


@pytest.mark.storage
def test_lists_are_searched_paged_and_of_one_cluster(site: Any) -> None:
    for number in range(60):
        site.run(f"{number}.s", 0.0, 10.0, account=f"p%{number:02d}", cluster="beta" if number % 2 else "alpha")

    def listed(by: str, **more: Any) -> Any:
        with site.engine.connect() as connection:
            return user_group_list(connection, by, Asked("name", **more))

    assert (listed("account").pages, len(listed("account", page=2).groups)) == (2, 10)
    assert listed("account", search="P%0").total == 10
    assert listed("account", search="P_0").total == 0
    assert listed("account", cluster="beta").total == 30
    assert listed("group").total == 0
