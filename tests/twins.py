"""Two engines side by side."""

from typing import Any

import torch
from one_group import make_env

from sim import randomisation
from sim.envs.robots import RobotGroup
from sim.physics import make_physics
from sim.physics.mujoco.mujoco_threads import MujocoPhysics

WORLDS = 16
ALL = torch.arange(WORLDS)


class Twins:
    """The same worlds of a task on native MuJoCo and another engine, from one start, under the same set-points."""

    def __init__(self, task: str, engine: str = "warp"):
        self.engine = engine
        world = make_env(task, WORLDS, seed=0, randomise=False).world
        self.scene, self.steps, model = world.scene, world.decimation, world.scene.model
        self.nq, self.nv = model.nq, model.nv
        self.columns = torch.arange(model.nq + model.nv)
        state = world.physics.now(self.columns).double()
        self.start = state[:, : model.nq], state[:, model.nq :], torch.full((WORLDS, model.na), 0.05).double()
        self.both = MujocoPhysics(self.scene, WORLDS, self.steps), self.another()
        self.both[0].reset(ALL, *self.start)
        team = self.scene.group.num_robots
        self.groups = [RobotGroup(self.scene.group, physics, self.steps, 0, team) for physics in self.both]

    def another(self) -> Any:
        physics = make_physics(self.engine, self.scene, WORLDS, self.steps, "cpu")
        physics.reset(ALL, *self.start)
        return physics

    def controls(self, count: int, seed: int = 0) -> list[torch.Tensor]:
        """Set-points about where robots rest, a tenth of their range to either side."""
        generator, group, ctrls = torch.Generator().manual_seed(seed), self.groups[0], []
        reach = 0.1 * (torch.tensor(group.robot.command_high) - torch.tensor(group.robot.command_low))
        for _ in range(count):
            shake = 2 * torch.rand(WORLDS, group.num_robots, len(reach), generator=generator) - 1
            ctrls.append(torch.zeros(WORLDS, self.steps, self.scene.model.nu, dtype=torch.float64))
            group.write(ctrls[-1], group.rest + reach * shake)
        return ctrls

    def go(self, count: int, force: torch.Tensor | None = None) -> None:
        for ctrl in self.controls(count):
            for physics in self.both:
                physics.step(ctrl, force)

    def apart(self) -> torch.Tensor:
        """Largest difference of a position of each world, m or rad."""
        native, other = (physics.now(self.columns)[:, : self.nq] for physics in self.both)
        return (native - other).abs().amax(dim=1)

    def change(self, terms: dict) -> None:
        """Randomise both engines' worlds alike."""
        for group in self.groups:
            generator = torch.Generator().manual_seed(3)
            for name, ranges in terms.items():
                getattr(randomisation, name)(group, ALL, generator, **ranges)
