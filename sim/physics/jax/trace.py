"""A torch function as a JAX function: traced by torch.export, then run with the operators of JAX."""

import logging
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import decomposition_table
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from sim.physics.jax.operators import Operator, drawing, operators
from sim.physics.jax.setup import to_jax
from sim.tracing import Untraceable, tracing

CHECKS = ("_assert_tensor_metadata", "_assert_scalar")  # torch's own, of what it has traced
TORCH = Path(torch.__file__).parent
MEANINGLESS = {"device", "layout", "pin_memory", "memory_format", "generator", "non_blocking"}  # in JAX


class Program:
    """`func` of a list of tensors as a function of JAX arrays and a random key.

    Whatever else `func` reads is a constant from now on; what it draws from torch's generators is drawn from the key.
    """

    def __init__(
        self, jax: Any, func: Callable[[list[Tensor]], list[Tensor]], example: list[Tensor], own: Mapping[str, Operator]
    ) -> None:
        """`own` are the JAX functions of operators that only this program has, by name, such as "phalanx::advance".

        Untraceable where `func` reads the value of a tensor, NotImplementedError where JAX lacks an operator.
        """

        class Traced(torch.nn.Module):
            def forward(self, given: list[Tensor]) -> list[Tensor]:
                return func(given)

        self._jax, self._operators = jax, {**operators(jax), **dict.fromkeys(CHECKS, _nothing), **own}
        with _quietly(), tracing():
            exported = torch.export.export(Traced(), (example,), strict=False)
            exported = exported.run_decompositions(self._decompositions())
        missing = self._missing(exported.graph)
        if any(_name(target) in ("sym_size", "nonzero") for target in missing):
            raise NotImplementedError("how many entries a mask selects is unknown in a trace: use torch.where")
        if missing:
            raise NotImplementedError(f"no JAX implementation of {', '.join(map(str, missing))}")
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
        run = _Interpreter(self._graph, {**self._operators, **drawing(self._jax, key)}).run
        out = run(*inputs, enable_io_processing=False)
        return [value for value, wanted in zip(out, self._wanted, strict=True) if wanted]

    def _decompositions(self) -> dict[Any, Callable]:
        """How operators are made of others: as torch does it by itself, and wherever JAX has none.

        All at once, for each pass over a program takes as long as tracing it.
        """
        known = self._known()
        return dict(torch.export.default_decompositions().items()) | {
            op: made
            for op, made in decomposition_table.items()
            if isinstance(op, torch._ops.OpOverload) and _name(op) not in known
        }

    def _known(self) -> Mapping[str, Operator]:
        return self._operators | drawing(self._jax, None)

    def _missing(self, graph: fx.Graph) -> list[Any]:
        """Operators that JAX has not, and that torch makes of no others."""
        known = self._known()
        called = {node.target for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
        return [target for target in called if _name(target) not in known]

    def _constant(self, value: Any) -> Any:
        return to_jax(self._jax, value.detach()) if isinstance(value, Tensor) else None  # JAX has no such generators


class _Interpreter(fx.Interpreter):
    """Runs a graph of torch's operators with those of JAX."""

    def __init__(self, graph: fx.GraphModule, table: Mapping[str, Operator]) -> None:
        super().__init__(graph)
        self._table = table

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, torch._ops.OpOverload):
            return super().call_function(target, args, kwargs)
        meant = {name: value for name, value in kwargs.items() if name not in MEANINGLESS}
        try:
            return self._table[_name(target)](*args, **meant)
        except TypeError as error:
            raise NotImplementedError(f"no JAX implementation of {target} with these arguments: {error}") from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence torch's trace log, a thousand lines where one operator fails; the error is one line with its place."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    except GuardOnDataDependentSymNode as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = next(frame for frame in reversed(frames) if TORCH not in Path(frame.filename).parents)
        asks = f"{place.filename}:{place.lineno} reads the value of a tensor: {place.line}"
        raise Untraceable(asks) from error
    finally:
        logging.disable(level)


def _name(target: Any) -> str:
    return target._schema.name.removeprefix("aten::").removeprefix("prims::")


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for torch's own checks."""
