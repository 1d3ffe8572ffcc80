"""What differs from world to world. Each function draws for the worlds that reset; ranges live in the task."""

import numpy as np
import torch

from sim.world import World

Range = tuple[float, float]


def mass(world: World, worlds: torch.Tensor, generator: torch.Generator, scale: Range) -> None:
    """Mass and inertia of every robot times a factor in `scale`."""
    factor = _uniform((len(worlds), world.num_robots), scale, generator).double().numpy()
    model = world.scene.model
    body = world.scene.base_body
    mass_kg, inertia = model.body_mass[body] * factor, model.body_inertia[body] * factor[..., None]
    for row, index in enumerate(worlds.tolist()):
        world.physics.set_masses(index, body, mass_kg[row], inertia[row])


def thrust(world: World, worlds: torch.Tensor, generator: torch.Generator, scale: Range) -> None:
    """Thrust that the rotors really give, as a factor in `scale` of what was asked: propeller wear, battery."""
    world.strength[worlds, :, 0] = _uniform((len(worlds), world.num_robots), scale, generator)


def actuator_delay(world: World, worlds: torch.Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Time from a command's computation until it acts, the same for all robots of a world; rounded to physics steps."""
    world.actuator_delay[worlds] = _steps(world, worlds, generator, range_s)


def sensor_delay(world: World, worlds: torch.Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Age of a robot's own state when its policy runs; rounded to physics steps."""
    world.sensor_delay[worlds] = _steps(world, worlds, generator, range_s)


def network_delay(world: World, worlds: torch.Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Age of what peers are heard to say; rounded to physics steps."""
    world.network_delay[worlds] = _steps(world, worlds, generator, range_s)


def _uniform(shape: tuple[int, ...], bounds: Range, generator: torch.Generator) -> torch.Tensor:
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"randomisation range ({low}, {high}): needs two finite numbers, low <= high")
    return low + (high - low) * torch.rand(shape, generator=generator)


def _steps(world: World, worlds: torch.Tensor, generator: torch.Generator, range_s: Range) -> torch.Tensor:
    steps = (_uniform((len(worlds),), range_s, generator) / world.sim_dt).round().long()
    if int(steps.max()) > world.max_delay_steps or int(steps.min()) < 0:
        raise ValueError(f"delay range {range_s} s: 0 to {world.max_delay_steps * world.sim_dt:.3f} s is possible")
    return steps
