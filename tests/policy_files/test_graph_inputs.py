"""What the exported graph makes of its inputs: memory has its true units, an empty slot of a peer is not looked at."""

import numpy as np
import pytest
from test_controller import make_controller
from test_export import random_inputs

from policies.export.graph import GraphController, step_function, unit_and_frame
from policies.task_data import first_sentence
from sim.tasks import load_task


@pytest.fixture(scope="module")
def given():
    """A graph of the team's policy, and inputs of which some slots are not valid."""
    graph = GraphController(make_controller())
    inputs = random_inputs(np.random.default_rng(0), 64, 5)
    inputs["correction"] = np.zeros((64, 4), np.float32)
    return graph, inputs | {t.name: np.tile(np.float32(initial), (64, 1)) for t, initial in graph.memory}


def refilled(inputs, value):
    """The inputs with other numbers in the slots that are not valid."""
    empty = ~inputs["peers_valid"]
    changed = {name: array.copy() for name, array in inputs.items()}
    for name in ("peers_pos", "peers_lin_vel", "peers_age"):
        changed[name][empty] = value
    assert empty.any() and inputs["peers_valid"].any()
    return changed


def test_what_stands_in_an_empty_slot_changes_no_bit_even_nan(given):
    graph, inputs = given
    step = step_function(graph)
    usual = step(inputs)
    for value in (0.0, 1e6, np.nan, np.inf):
        found = step(refilled(inputs, value))
        assert all(np.array_equal(usual[name], found[name]) for name in usual), value
    assert np.isnan(step(inputs | {"peers_pos": np.full_like(inputs["peers_pos"], np.nan)})["target"]).any()


def test_masking_changes_no_bit_of_what_finite_inputs_give(given, monkeypatch):
    graph, inputs = given
    masked = step_function(graph)(inputs)
    monkeypatch.setattr("policies.export.graph._of_peers", lambda value, valid: value)
    bare = step_function(graph)(inputs)
    assert all(np.array_equal(masked[name], bare[name]) for name in masked)


def test_memory_has_the_unit_and_frame_that_its_term_states(given):
    specs = {spec.name: (spec.unit, spec.frame) for spec, _ in given[0].memory}
    assert specs == {"last_action": ("1", "none"), "goal_offset_sum": ("m s", "world")}
    assert unit_and_frame("Level unit vector to the robot, (..., 3), world: a place") == ("1", "world")
    assert unit_and_frame("Phase of the gait, (..., 1) in [0, 1): runs") == ("1", "none")
    assert unit_and_frame("state of the network") == ("1", "none")
    assert unit_and_frame("Error, (..., 4) m, rad: of both") == ("m, rad", "none")


def test_what_a_drone_remembers_of_its_motion_is_in_the_body_frame_and_in_the_units_that_are_in_it():
    hover = load_task("hover")
    (cfg,) = hover.groups.values()
    of_term = {name: unit_and_frame(first_sentence(term.func)) for name, term in cfg.observation.memory.items()}
    assert of_term == {"frames": ("m/s, 1, rad/s, 1", "body"), "goal_offset_sum": ("m s", "world")}
