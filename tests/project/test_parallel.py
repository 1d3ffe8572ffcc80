"""Parallel workers: what shares a fixture has to run in one of them, or each makes the fixture for itself."""

import pytest


@pytest.fixture(scope="module")
def shared():
    return "test_parallel"


def test_groups_of_tests_reach_the_workers(request, shared):
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("no parallel workers with groups")
    assert request.node.nodeid.endswith(f"@{shared}")  # by which pytest-xdist sends tests to workers
