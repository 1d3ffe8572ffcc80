"""The two solvers against each other, against plain enumeration and on problems that have no answer."""

from itertools import combinations

import numpy as np
import pytest
import torch

from deploy.shield.qp.batched import solve_batch
from deploy.shield.qp.single import solve_one


def random_problems(rng: np.random.Generator, count: int, rows: int, shift: float):
    """Rows of any length around a random point; the smaller `shift`, the more of them have no answer."""
    normals = rng.normal(size=(count, rows, 3)) * 10 ** rng.uniform(-1, 1, (count, rows, 1))
    bound = (normals @ rng.normal(size=(count, 3, 1)))[..., 0]
    bound += np.linalg.norm(normals, axis=-1) * rng.normal(shift, 1.0, (count, rows))
    return normals, bound, 5.0 * rng.normal(size=(count, 3))


def degenerate_problems(rng: np.random.Generator, count: int):
    """Rows along few directions, repeated, opposed, empty, and with many planes through one point."""
    table = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)], float)
    normals = table[rng.integers(0, len(table), (count, 16))]
    bound = rng.integers(-1, 4, (count, 16)).astype(float)
    bound[(normals == 0).all(-1)] = rng.integers(0, 2, ((normals == 0).all(-1)).sum())
    normals[: count // 2, 8:], bound[: count // 2, 8:] = normals[: count // 2, :8], bound[: count // 2, :8]
    return normals, bound, rng.integers(-4, 5, (count, 3)).astype(float)


@pytest.mark.parametrize("kind", ["few rows", "many rows", "often infeasible", "degenerate"])
def test_daqp_and_the_batched_method_agree_to_1e_6_and_on_infeasibility(kind):
    rng = np.random.default_rng(1)
    rows, bound, request = {
        "few rows": lambda: random_problems(rng, 1000, 4, 0.5),
        "many rows": lambda: random_problems(rng, 1000, 25, 2.5),
        "often infeasible": lambda: random_problems(rng, 1000, 12, 0.3),
        "degenerate": lambda: degenerate_problems(rng, 1000),
    }[kind]()
    accel, feasible, multipliers = solve_batch(*(torch.as_tensor(x) for x in (rows, bound, request)))
    one_by_one = [solve_one(*problem) for problem in zip(rows, bound, request, strict=True)]
    expected = np.array([answer[1] for answer in one_by_one])
    assert (feasible.numpy() == expected).all()
    assert expected.mean() > 0.05 and (kind == "few rows" or expected.mean() < 1.0)
    expected_accel = np.array([answer[0] for answer in one_by_one])
    np.testing.assert_allclose(accel.numpy()[expected], expected_accel[expected], atol=1e-6)
    # Optimality needs no second solver: request - a is what the active rows push, and they push outwards only.
    push = np.einsum("bm,bmk->bk", multipliers.numpy(), rows)
    np.testing.assert_allclose((request - accel.numpy())[expected], push[expected], atol=1e-6)
    assert (multipliers.numpy()[expected] >= 0).all()


def test_both_agree_with_trying_every_set_of_active_rows():
    rng = np.random.default_rng(2)
    for rows, bound, request in zip(*random_problems(rng, 60, 7, 0.5), strict=True):
        best, best_cost = None, np.inf
        for size in range(4):
            for chosen in map(list, combinations(range(7), size)):
                normals = rows[chosen]
                weights = np.linalg.lstsq(normals @ normals.T, normals @ request - bound[chosen], rcond=None)[0]
                accel = request - normals.T @ weights
                cost = np.linalg.norm(accel - request)
                if (rows @ accel - bound <= 1e-8).all() and cost < best_cost:
                    best, best_cost = accel, cost
        accel, feasible, _ = solve_one(rows, bound, request)
        many, many_feasible, _ = solve_batch(rows[None], bound[None], request[None])
        assert feasible == bool(many_feasible[0]) == (best is not None)
        if best is not None:
            np.testing.assert_allclose(accel, best, atol=1e-6)
            np.testing.assert_allclose(many[0], best, atol=1e-6)


def test_a_request_that_breaks_no_row_comes_back_unchanged():
    rows, bound, _ = random_problems(np.random.default_rng(3), 50, 10, 3.0)
    inside = np.zeros((50, 3))
    bound = np.maximum(bound, 0.0)
    accel, feasible, multipliers = solve_batch(rows, bound, inside)
    assert feasible.all() and (accel == inside).all() and (multipliers == 0).all()


def test_an_empty_batch_is_an_answer():
    accel, feasible, _ = solve_batch(torch.zeros(0, 5, 3), torch.zeros(0, 5), torch.zeros(0, 3))
    assert accel.shape == (0, 3) and feasible.shape == (0,)
