"""A torch function as a JAX function: traced by torch.export, then run by the operators that torchax has for JAX."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import get_decompositions
from torch.export.graph_signature import InputKind, OutputKind

from sim.physics.jax_setup import lend
from sim.tracing import tracing

Operator = Callable[..., Any]
Own = Mapping[str, Operator]  # by the name of torch's operator, such as "aten::rand"
CHECKS = ("aten::_assert_tensor_metadata", "aten::_assert_scalar")  # torch's own, of what it has traced
# Overloads that torchax 0.0.13 has in its tables and torch 2.13 no longer has; nothing here calls them
GONE = {"prod": "dim_Dimname", "index_copy": "dimname"}


class Program:
    """`func` of a list of tensors as a function of JAX arrays and a random key.

    Whatever else `func` reads is a constant from now on; what it draws from torch's generators is drawn from the key.
    """

    def __init__(self, jax: Any, func: Callable[[list[Tensor]], list[Tensor]], example: list[Tensor], own: Own) -> None:
        """`own` are the JAX functions of operators that only this program has. ImportError without torchax."""
        self._jax, self._table, self._own = jax, _torchax(), own

        class Traced(torch.nn.Module):
            def forward(self, given: list[Tensor]) -> list[Tensor]:
                return func(given)

        with warnings.catch_warnings(), tracing():
            warnings.simplefilter("ignore")  # of torch about itself
            exported = torch.export.export(Traced(), (example,), strict=False).run_decompositions()
            exported = exported.run_decompositions(get_decompositions(self._missing(exported.graph)))
        self._graph = exported.graph_module
        self._inputs = [
            (spec.kind is InputKind.USER_INPUT, exported.constants.get(spec.target or ""))
            for spec in exported.graph_signature.input_specs
        ]
        self._wanted = [spec.kind is OutputKind.USER_OUTPUT for spec in exported.graph_signature.output_specs]

    def __call__(self, given: Iterable[Any], key: Any) -> list[Any]:
        """What `func` makes of these arrays."""
        rest = iter(given)
        inputs = [next(rest) if asked else self._constant(value) for asked, value in self._inputs]
        run = _Interpreter(self._graph, self._table, {**_drawing(self._jax, key), **self._own}).run
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Explicitly requested dtype")  # of 64 bits, where JAX has 32
            out = run(*inputs, enable_io_processing=False)
        return [value for value, wanted in zip(out, self._wanted, strict=True) if wanted]

    def _missing(self, graph: fx.Graph) -> list[Any]:
        """Operators that torchax does not have; torch makes most of them from others."""
        called = {node.target for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
        known = {target for target in called if _found(self._table, target) or target._schema.name in self._own}
        return list(called - known)

    def _constant(self, value: Any) -> Any:
        return lend(self._jax, value.detach()) if isinstance(value, Tensor) else None  # of generators JAX knows nothing


class _Interpreter(fx.Interpreter):
    """Runs a graph of torch's operators with JAX's."""

    def __init__(self, graph: fx.GraphModule, table: Mapping[Any, Any], own: Own) -> None:
        super().__init__(graph)
        self._table, self._own = table, own

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """See `torch.fx.Interpreter`."""
        if not isinstance(target, torch._ops.OpOverload):
            return super().call_function(target, args, kwargs)
        name = target._schema.name
        if name in CHECKS:
            return None
        if name in self._own:
            return self._own[name](*args)
        operator = _found(self._table, target)
        if operator is None:
            raise NotImplementedError(f"torchax has no operator {target}")
        return operator.func(*args, **kwargs)


def _found(table: Mapping[Any, Any], target: Any) -> Any:
    return table.get(target) or table.get(target.overloadpacket)


def _drawing(jax: Any, key: Any) -> dict[str, Operator]:
    """Operators that draw, each time from a key of its own."""
    draws = 0

    def fresh() -> Any:
        nonlocal draws
        draws += 1
        return jax.random.fold_in(key, draws)

    def integers(*bounds_and_shape: Any) -> Any:
        *low, high, shape = bounds_and_shape
        return jax.random.randint(fresh(), shape, low[0] if low else 0, high)

    return {
        "aten::rand": lambda shape: jax.random.uniform(fresh(), shape),
        "aten::randn": lambda shape: jax.random.normal(fresh(), shape),
        "aten::randint": integers,
    }


def _torchax() -> Mapping[Any, Any]:
    """Operators of torch in JAX."""
    for packet, overload in ((getattr(torch.ops.aten, name), overload) for name, overload in GONE.items()):
        if overload not in packet.overloads():
            setattr(packet, overload, None)
    import_module("torchax.ops.jaten")  # fills the registry
    return import_module("torchax.ops.ops_registry").all_aten_ops
