"""Operators of torch as JAX has them: those of its core that terms, starts, randomisation and networks are made of."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Operator = Callable[..., Any]
# The same in both, by the same name
SAME = (
    "abs acos asin atan atan2 cos cosh exp expm1 log log1p pow sin sinh sqrt tan tanh ceil floor fmod remainder round "
    "sign trunc isinf isnan where cumsum maximum minimum bitwise_and bitwise_not bitwise_or bitwise_xor logical_and "
    "logical_not logical_or"
)
COMPARED = {"eq": "equal", "ne": "not_equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less"}


def operators(jax: Any) -> dict[str, Operator]:
    """Name of the operator in torch's core, without its "aten::" -> the JAX function with the same arguments."""
    np = jax.numpy
    same = {name: getattr(np, name) for name in SAME.split()} | {
        name: getattr(np, other) for name, other in COMPARED.items()
    }
    return same | _arithmetic(jax) | _reductions(jax) | _made(np) | _shapes(np) | _picked(jax)


def drawing(jax: Any, key: Any) -> dict[str, Operator]:
    """Operators that draw, each time that one is called from a key of its own."""
    draws = 0

    def fresh() -> Any:
        nonlocal draws
        draws += 1
        return jax.random.fold_in(key, draws)

    def integers(*bounds_and_shape: Any, dtype: Any = None) -> Any:
        *low, high, shape = bounds_and_shape
        return jax.random.randint(fresh(), shape, low[0] if low else 0, high)

    return {
        "rand": lambda shape, dtype=None: jax.random.uniform(fresh(), shape),
        "randn": lambda shape, dtype=None: jax.random.normal(fresh(), shape),
        "rand_like": lambda x, dtype=None: jax.random.uniform(fresh(), x.shape),
        "randn_like": lambda x, dtype=None: jax.random.normal(fresh(), x.shape),
        "randint": integers,
    }


def _arithmetic(jax: Any) -> dict[str, Operator]:
    np = jax.numpy

    def div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
        if rounding_mode is None:
            return np.true_divide(a, b)
        return np.floor_divide(a, b) if rounding_mode == "floor" else np.trunc(a / b).astype(np.result_type(a, b))

    return {
        "add": lambda a, b, alpha=1: np.add(a, b if alpha == 1 else alpha * b),
        "sub": lambda a, b, alpha=1: np.subtract(a, b if alpha == 1 else alpha * b),
        "mul": np.multiply,
        "div": div,
        "erf": jax.scipy.special.erf,
        "neg": np.negative,
        "reciprocal": np.reciprocal,
        "rsqrt": lambda x: 1.0 / np.sqrt(x),
        "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
        "relu": lambda x: np.maximum(x, 0),
        "clamp": np.clip,
        "mm": np.matmul,
        "bmm": np.matmul,
        "addmm": lambda bias, a, b: bias + a @ b,
        "_cdist_forward": lambda a, b, p, _: np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, -1),
    }


def _reductions(jax: Any) -> dict[str, Operator]:
    np = jax.numpy

    def over(reduce: Operator) -> Operator:
        def reduced(x: Any, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
            x = x if dtype is None else x.astype(_kind(dtype))
            return reduce(x, axis=_axis(dims), keepdims=keepdim)

        return reduced

    def norm(x: Any, order: float = 2, dims: Any = None, keepdim: bool = False) -> Any:
        if order != 2:
            raise NotImplementedError(f"a vector norm of order {order}")
        return np.sqrt(over(np.sum)(x * x, dims, keepdim))

    def place(find: Operator) -> Operator:
        return lambda x, dim=None, keepdim=False: find(x, axis=dim, keepdims=keepdim)

    def best(value: Operator, find: Operator) -> Operator:
        def found(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
            values = over(value)(x, dim, keepdim)
            return values if dim is None else (values, place(find)(x, dim, keepdim))

        return found

    def var(x: Any, dims: Any = None, correction: float | None = None, keepdim: bool = False) -> Any:
        return np.var(x, axis=_axis(dims), ddof=1 if correction is None else correction, keepdims=keepdim)

    names = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "any": np.any, "all": np.all}
    names["prod"] = np.prod
    return {name: over(reduce) for name, reduce in names.items()} | {
        "argmax": place(np.argmax),
        "argmin": place(np.argmin),
        "max": best(np.max, np.argmax),
        "min": best(np.min, np.argmin),
        "var": var,
        "linalg_vector_norm": norm,
        "_softmax": lambda x, dim, _: jax.nn.softmax(x, axis=dim),
    }


def _made(np: Any) -> dict[str, Operator]:
    """Tensors out of nothing, and of another type."""
    return {
        "arange": lambda *bounds, dtype=None: np.arange(*bounds, dtype=dtype and _kind(dtype)),
        "full": lambda shape, value, dtype=None: np.full(tuple(shape), value, dtype and _kind(dtype)),
        "full_like": lambda x, value, dtype=None: np.full_like(x, value, dtype and _kind(dtype)),
        "scalar_tensor": lambda value, dtype=torch.float32: np.asarray(value, _kind(dtype)),
        "_to_copy": lambda x, dtype=None: x if dtype is None else x.astype(_kind(dtype)),
        "clone": lambda x: x,
        "alias": lambda x: x,
        "copy": lambda x, source: np.broadcast_to(source, x.shape).astype(x.dtype),
    }


def _shapes(np: Any) -> dict[str, Operator]:
    def expand(x: Any, shape: Sequence[int]) -> Any:
        old = (1,) * (len(shape) - x.ndim) + x.shape
        return np.broadcast_to(x, [there if asked == -1 else asked for asked, there in zip(shape, old, strict=True)])

    def pad(x: Any, widths: Sequence[int], value: float = 0.0) -> Any:
        pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]  # torch begins with the last axis
        return np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, constant_values=value)

    return {
        "view": np.reshape,
        "permute": np.transpose,
        "flip": np.flip,
        "unsqueeze": np.expand_dims,
        "squeeze": lambda x, dims: np.squeeze(x, tuple(dim for dim in dims if x.shape[dim] == 1)),
        "expand": expand,
        "repeat": lambda x, counts: np.tile(x, tuple(counts)),
        "cat": lambda parts, dim=0: np.concatenate(parts, axis=dim),
        "constant_pad_nd": pad,
    }


def _picked(jax: Any) -> dict[str, Operator]:
    """Parts of a tensor, read and replaced."""
    np = jax.numpy

    def along(x: Any, dim: int, entry: Any) -> tuple:
        return (slice(None),) * (dim % x.ndim) + (entry,)

    def indexed(indices: Sequence[Any]) -> tuple:
        if any(index is not None and index.dtype == bool for index in indices):
            raise NotImplementedError("a mask puts one value everywhere, or torch.where chooses")
        return tuple(slice(None) if index is None else index for index in indices)

    def put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
        if len(indices) == 1 and indices[0].dtype == bool and values.size == 1 and not accumulate:
            mask = indices[0].reshape(indices[0].shape + (1,) * (x.ndim - indices[0].ndim))
            return np.where(mask, values.reshape(()), x)
        at = x.at[indexed(indices)]
        return at.add(values) if accumulate else at.set(values)

    def gather(x: Any, dim: int, index: Any) -> Any:
        dim %= x.ndim
        shared = tuple(slice(None) if axis == dim else slice(size) for axis, size in enumerate(index.shape))
        return np.take_along_axis(x[shared], index, axis=dim)

    def top(x: Any, count: int, dim: int = -1, largest: bool = True, _: bool = True) -> tuple:
        values, places = jax.lax.top_k(np.moveaxis(x if largest else -x, dim, -1), count)
        return np.moveaxis(values if largest else -values, -1, dim), np.moveaxis(places, -1, dim)

    def sort(x: Any, dim: int = -1, descending: bool = False) -> tuple:
        places = np.argsort(x, axis=dim, descending=descending)
        return np.take_along_axis(x, places, axis=dim), places

    return {
        "sort": sort,
        "select": lambda x, dim, index: x[along(x, dim, index)],
        "slice": lambda x, dim=0, start=None, end=None, step=1: x[along(x, dim, slice(start, end, step))],
        "slice_scatter": lambda x, source, dim=0, start=None, end=None, step=1: x.at[
            along(x, dim, slice(start, end, step))
        ].set(source),
        "index": lambda x, indices: x[indexed(indices)],
        "index_put": put,
        "index_select": lambda x, dim, index: np.take(x, index, axis=dim),
        "gather": gather,
        "topk": top,
    }


def _axis(dims: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    """To torch no axes are all of them."""
    return dims if dims is None or isinstance(dims, int) else tuple(dims) or None


def _kind(dtype: torch.dtype) -> type:
    """What JAX makes of it: it has 32 bits where torch may have 64."""
    return bool if dtype is torch.bool else float if dtype.is_floating_point else int
