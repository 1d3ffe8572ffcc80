"""Which process carries which robots: no crash takes two neighbours, and a policy to be killed is alone."""

from itertools import pairwise

import pytest

from ros_nodes.plans.placement import join_links, place_team

TEAM = [f"cf{number}" for number in range(1, 10)]


def carried(hosts, kind):
    return [node for nodes in hosts.values() for node in nodes if node.endswith(kind)]


@pytest.mark.parametrize("size", range(1, 10))
def test_every_node_of_a_team_is_in_one_process_and_neighbours_have_different_shields(size):
    team = TEAM[:size]
    hosts = place_team(team)
    assert sorted(carried(hosts, "/policy")) == [f"{name}/policy" for name in team]
    assert sorted(carried(hosts, "/shield")) == [f"{name}/shield" for name in team]
    at = {node: host for host, nodes in hosts.items() for node in nodes}
    for one, other in pairwise(team):
        assert at[f"{one}/shield"] != at[f"{other}/shield"]
    assert not any(at[f"{name}/policy"] == at[f"{name}/shield"] for name in team)


def test_a_policy_that_is_to_be_killed_takes_no_other_along():
    hosts = place_team(TEAM[:4], own_policy="cf1")
    assert hosts["cf1_policy"] == ["cf1/policy"]
    assert hosts["policy_host_1"] == ["cf2/policy", "cf3/policy", "cf4/policy"]
    assert place_team(["cf1"], own_policy="cf1") == {"cf1_shield": ["cf1/shield"], "cf1_policy": ["cf1/policy"]}


def test_a_robot_with_a_driver_shares_its_process_with_no_other():
    hosts = place_team(TEAM[:5], apart=["cf2", "cf4"])
    assert [nodes for nodes in hosts.values() if {"cf2/shield", "cf4/shield"} & {*nodes}] == [
        ["cf2/shield"],
        ["cf4/shield"],
    ]
    assert hosts["shield_host_1"] == ["cf1/shield", "cf5/shield"] and hosts["cf3_shield"] == ["cf3/shield"]
    assert place_team(TEAM[:4], shield_hosts=2, apart=["cf1"]) == place_team(TEAM[:4]), "as the team file says"
    assert carried(place_team(["cf1"], apart=["cf1"]), "/shield") == ["cf1/shield"]


def test_one_process_each_remains_possible():
    hosts = place_team(TEAM[:3], policy_hosts=3, shield_hosts=3)
    assert all(len(nodes) == 1 for nodes in hosts.values()) and len(hosts) == 6


@pytest.mark.parametrize("hosts", [{"policy_hosts": 0}, {"shield_hosts": 5}, {"policy_hosts": -1}])
def test_a_number_of_hosts_that_cannot_be_is_named(hosts):
    ((name, value),) = hosts.items()
    with pytest.raises(ValueError, match=f"{name} = {value}: from 1 to 4"):
        place_team(TEAM[:4], **hosts)


def test_shields_of_robots_that_share_a_radio_share_a_process():
    links = {"cf1": "radio 0", "cf2": "radio 0", "cf4": "radio 1"}
    hosts = join_links(place_team(TEAM[:4]), links)
    assert hosts["shield_host_1"] == ["cf1/shield", "cf3/shield", "cf2/shield"]
    assert hosts["shield_host_2"] == ["cf4/shield"]
    assert sorted(carried(hosts, "/policy")) == [f"{name}/policy" for name in TEAM[:4]]
    one = join_links(place_team(TEAM[:2]), dict.fromkeys(TEAM[:2], "radio 0"))
    assert one["cf1_shield"] == ["cf1/shield", "cf2/shield"] and "cf2_shield" not in one
