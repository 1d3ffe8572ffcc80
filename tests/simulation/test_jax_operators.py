"""A torch function is the same function in JAX, whatever it is made of."""

import pytest
import torch

from sim.physics.jax.setup import engine_modules, to_jax
from sim.physics.jax.trace import Program

pytestmark = pytest.mark.slow  # it compiles

X = torch.tensor([[0.3, -1.7, 2.5, 0.0], [1.1, -0.2, -3.4, 0.9], [2.2, 0.4, 0.6, -0.8]])
Y = torch.tensor([[1.3, 0.7, -2.5, 1.0], [0.1, 2.2, 3.4, -0.9], [0.2, -0.4, 1.6, 0.8]])
PLACE = torch.tensor([2, 0])


def arithmetic(x, y):
    return [
        torch.add(x, y, alpha=2.0),
        x - 3,
        2.0 - x,
        x / y,
        x**2,
        torch.remainder(x, 0.7),
        x.clamp(min=0.1),
        (-x).round(),
    ]


def rounded(x, y):
    return [x // 0.7, torch.div(x, 0.7, rounding_mode="trunc"), torch.fmod(x, 0.7), (4 * x).long() // 3, x.erf()]


def functions(x, y):
    share = x.abs() / 4.0
    found = [share.asin(), share.acos(), x.atan(), torch.atan2(x, y), x.tanh(), x.exp(), x.expm1(), share.log1p()]
    return [
        *found,
        x.sigmoid(),
        x.relu(),
        torch.nn.functional.elu(x),
        torch.softmax(x, dim=0),
        x.sign(),
        x.trunc(),
        x.ceil(),
    ]


def reductions(x, y):
    large = x > 0
    whole = [x.sum(), x.mean(), x.amax((0, 1)), large.any(), large.all(), x.prod(0), x.cumsum(1), x.std()]
    of_rows = [x.sum(-1, keepdim=True), x.mean(0), x.amin(1), large.any(-1), large.all(0), x.argmax(1), x.argmin()]
    return [
        *whole,
        *of_rows,
        torch.linalg.vector_norm(x, dim=-1),
        x.norm(),
        torch.cdist(x, y),
        large.sum(),
        x.max(1)[0],
    ]


def logic(x, y):
    a, b = x > 0, y >= 0.7
    return [a & b, a | b, a ^ b, ~a, a == b, x != y, x < y, torch.where(a, x, 0.0), x.isnan(), a.float(), a.long() + 1]


def shapes(x, y):
    wide = x.reshape(2, 1, 6).expand(2, 3, -1)
    flat = [x.T, x.view(4, 3), x.repeat(2, 3), x.unsqueeze(-1).squeeze(-1), x.flip(0), torch.stack([x, y], dim=1)]
    return [
        wide,
        *flat,
        torch.nn.functional.pad(x, (1, 2, 0, 1)),
        x.movedim(0, -1),
        torch.cat([x, y], dim=-1),
        x.tril(),
    ]


def parts(x, y):
    changed = x.clone()
    changed[PLACE] = 7.0
    changed[:, 1:4:2] += 1.0
    changed[0, -1] = 5.0
    added = x.index_put((PLACE,), torch.ones(4), accumulate=True).index_add(0, PLACE, y[:2])
    picked = [x[PLACE], x[:, PLACE], x[PLACE, PLACE], x[-1], x[:, 1:-1], x[..., ::2], x.index_select(1, PLACE)]
    chosen = [x.gather(1, torch.tensor([[3], [1]])), *x.topk(2, dim=0, largest=False), *x.unbind(1)]
    masked = x.clone()
    masked[x > 0] = 2.0
    return [masked, *x.sort(dim=0, descending=True), changed, added, *picked, *chosen, x.index_copy(0, PLACE, y[:2])]


def made(x, y):
    return [
        torch.arange(1, 7, 2) + x[0, :3],
        torch.arange(0, 1, 0.25),
        torch.linspace(0, 1, 5),
        torch.zeros(2, 3),
        torch.full((2,), 4),
        torch.eye(3),
        torch.ones_like(x).long(),
    ]


def products(x, y):
    return [
        x @ y.T,
        x[None] @ y.T[None],
        torch.addmm(y[:, :3], x, y.T),
        torch.einsum("ij,kj->ik", x, y),
        torch.outer(x[0], y[0]),
    ]


@pytest.fixture(scope="module")
def jax():
    return engine_modules("mjx")[0]


@pytest.mark.parametrize("func", [arithmetic, rounded, functions, reductions, logic, shapes, parts, made, products])
def test_what_torch_computes_jax_computes(jax, func):
    program = Program(jax, lambda given: func(*given), [X, Y], {})
    found = jax.jit(program)([to_jax(jax, X), to_jax(jax, Y)], jax.random.key(0))
    for number, (here, there) in enumerate(zip(found, func(X, Y), strict=True)):
        values = torch.from_dlpack(here)
        assert values.is_floating_point() == there.is_floating_point(), number
        torch.testing.assert_close(
            values.double(), there.double(), rtol=1e-5, atol=1e-6, msg=lambda m, n=number: f"{n}: {m}"
        )


def test_every_draw_is_another_and_follows_its_key(jax):
    generator = torch.Generator()

    def draws(given):
        shape = given[0].shape
        uniform = [torch.rand(shape, generator=generator) for _ in range(2)]
        return [*uniform, torch.randn(shape, generator=generator), torch.randint(3, 9, shape, generator=generator)]

    program = Program(jax, draws, [torch.zeros(4000)], {})
    first, again, other = (program([jax.numpy.zeros(4000)], jax.random.key(seed)) for seed in (0, 0, 1))
    one, two, normal, integers = (torch.from_dlpack(values) for values in first)
    assert not torch.equal(one, two) and 0 <= one.min() < 0.01 and 0.99 < one.max() < 1
    assert abs(float(normal.mean())) < 0.1 and abs(float(normal.std()) - 1) < 0.05
    assert integers.unique().tolist() == [3, 4, 5, 6, 7, 8]
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not any((a == b).all() for a, b in zip(first, other, strict=True))


def test_an_operator_that_jax_is_not_told_of_is_named(jax):
    with pytest.raises(NotImplementedError, match=r"aten\._linalg_eigh"):
        Program(jax, lambda given: list(torch.linalg.eigh(given[0])), [torch.eye(3)], {})


def test_a_mask_that_picks_is_refused_with_what_to_do(jax):
    with pytest.raises(NotImplementedError, match=r"use torch\.where"):
        Program(jax, lambda given: [given[0][given[0] > 0].sum()], [X], {})
