"""Rollouts as one compiled program in JAX: policies, physics and terms, without a stop between steps.

Terms are the same torch functions as everywhere: traced once, see sim/physics/jax/trace.py. In the program a restart
is computed for all worlds, and those take it whose episode has ended. Two things differ from single steps: random
numbers come from JAX, and masses that change are in force from the end of the rollout on, because what MuJoCo derives
from them is derived on the host.
"""

import pickle
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from sim.physics import EngineError
from sim.physics.engine_errors import announce, engine_errors
from sim.physics.jax.setup import compiled_for, to_jax
from sim.physics.jax.trace import Program
from sim.tracing import Untraceable, tracing
from sim.tree import flat, like, on_tensors


class JittedRollout:
    """`num_steps` control steps of all worlds of an environment under a team's policies, in one call."""

    def __init__(self, env: Any, policies: Mapping[str, Any], num_steps: int) -> None:
        """`env` is on a `TraceablePhysics`. Exceptions of all kinds where it cannot be traced."""
        if any(policy.memory for policy in policies.values()):
            raise Untraceable("policies that remember need single steps")
        self.env, self.num_steps, self.physics = env, num_steps, env.world.physics
        self._samplers = {name: _Sampler(policy) for name, policy in policies.items()}
        worlds = self.physics.num_worlds
        announce(self.physics.engine, f"compiling a rollout of {num_steps} control steps of {worlds} worlds")
        self.physics.settle()
        self._state = env.get_state(traced=True)
        self._seen: Any = None
        program = self._traced(flat(self._state) + self._parameters())
        self._compiled = self._compile(program)

    def steps(self, generator: torch.Generator) -> Iterator[tuple]:
        """Go through a rollout, after which `env` is where that ended.

        Each step is, by group, what is seen, what is remembered (nothing), what is done (action (W, N, U), new memory,
        extras), and then the `EnvStep`.
        """
        physics, jax = self.physics, self.physics.jax
        seed = torch.randint(2**31, (1,), generator=generator, dtype=torch.int32, device=generator.device)
        physics.settle()
        given = flat(self.env.get_state(traced=True)) + self._parameters()  # keeps alive what is lent
        with engine_errors(physics.engine, physics.num_worlds, physics.device.type):
            state, seen = self._compiled([to_jax(jax, tensor) for tensor in given], to_jax(jax, seed))
            if physics.device.type == "cpu":
                jax.block_until_ready(state)
        # A copy, for steps and resets outside write to what is theirs
        taken = [torch.from_dlpack(new).to(old.dtype, copy=True) for new, old in zip(state, given, strict=False)]
        self.env.set_state(like(self._state, taken))
        outcome = like(self._seen, map(torch.from_dlpack, seen))
        physics.settle()
        for t in range(self.num_steps):
            yield on_tensors(lambda tensor, t=t: tensor[t], outcome)

    def _parameters(self) -> list[Tensor]:
        return [tensor.detach() for sampler in self._samplers.values() for tensor in sampler.state_dict().values()]

    def _traced(self, example: list[Tensor]) -> Program:
        """One control step, (state, parameters) -> (state, what is seen)."""
        env, physics = self.env, self.physics
        names = {group: list(sampler.state_dict()) for group, sampler in self._samplers.items()}
        count = len(flat(self._state))
        kept, drawn = on_tensors(Tensor.clone, self._state), env.generator.get_state()

        @torch.no_grad()
        def step(given: list[Tensor]) -> list[Tensor]:
            env.set_state(like(self._state, given[:count]))
            rest, seen, done = iter(given[count:]), env.obs, {}
            for group, sampler in self._samplers.items():
                parameters = {name: next(rest) for name in names[group]}
                done[group] = functional_call(sampler, parameters, (seen[group], env.generator))
            outcome = env.step({group: action for group, (action, *_) in done.items()})
            self._seen = (seen, {group: {} for group in done}, done, outcome)
            return flat(env.get_state(traced=True)) + flat(self._seen)

        try:
            others = _other_generators()
            with tracing():  # what terms make once and keep is made now: in a trace it would not last
                step([tensor.clone() for tensor in example])
            if _other_generators() != others:
                raise Untraceable("it draws from numpy.random or random: draw from torch, with the generator given")
            return Program(physics.jax, step, example, {"phalanx::advance": physics.advance_all})
        finally:
            env.set_state(kept)
            env.generator.set_state(drawn)

    def _compile(self, program: Program) -> Any:
        jax, device = self.physics.jax, self.physics.device.type
        count = len(flat(self._state))

        def rollout(given: list, seed: Any) -> tuple:
            def step(state: list, key: Any) -> tuple[list, list]:
                out = program([*state, *given[count:]], key)
                return [new.astype(old.dtype) for new, old in zip(out, state, strict=False)], out[count:]

            keys = jax.random.split(jax.random.key(seed[0]), self.num_steps)
            return jax.lax.scan(step, given[:count], keys)

        given = [to_jax(jax, tensor) for tensor in flat(self._state) + self._parameters()]
        seed = to_jax(jax, torch.zeros(1, dtype=torch.int32, device=self.physics.device))
        with jax.default_matmul_precision("highest"):  # as torch has it
            return compiled_for(jax.jit(rollout).lower(given, seed), device)


def _other_generators() -> bytes:
    """Where generators stand that a program would ask once and for all."""
    return pickle.dumps((random.getstate(), np.random.get_state()))


class _Sampler(nn.Module):
    """Draws from a policy, with parameters that a program is given."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: Any, generator: torch.Generator) -> tuple[Tensor, Mapping[str, Tensor], dict[str, Tensor]]:
        """Observation (W, N, .) -> action (W, N, U), memory and extras (W, N)."""
        action, memory, extras = self.policy.sample(obs, {}, generator)
        return action, memory, extras


def jitted_rollout(env: Any, policies: Mapping[str, Any], num_steps: int) -> JittedRollout | None:
    """The rollout of an environment in one program; None where that cannot be had, which a line tells."""
    engine = env.world.physics.engine
    try:
        return JittedRollout(env, policies, num_steps)
    except EngineError:
        raise
    except Exception as error:  # of torch, of JAX, or of a task that does what only single steps can
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        announce(engine, f"rollouts go step by step, for they cannot be compiled as a whole: {reason}")
        return None
