"""Flies what was trained on `sim.attack.learned` against the shields of a campaign."""

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hardware.types import Peers
from policies.checkpoint import load_checkpoint
from policies.evaluation.trained import controllers_of, trained_task
from policies.networks.controller import Controller
from sim.attack.attackers import ATTACKERS, Attacker, View
from sim.attack.campaign import Campaign, Flight, fly_one
from sim.attack.outcome import Outcome
from sim.attack.team import state_of
from sim.task import PolicyInput

LEARNED = "learned"


def register(run: Path) -> None:
    """Make the policy of a training run an attacker of this process."""
    ATTACKERS[LEARNED] = Attacker(LEARNED, lambda view: attack(controller_of(run), view))


def fly_learned(cfg: Campaign, run: Path, flight: Flight) -> Outcome:
    """`fly_one` where the policy of `run` is one of the attackers."""
    register(run)
    controller_of(run)  # what is wrong with the run is no violation of the shield
    return fly_one(cfg, flight)


@cache
def controller_of(run: Path) -> Controller:
    """Of a run with a single group."""
    torch.set_num_threads(1)
    content = load_checkpoint(run)
    (controller,) = controllers_of(content, trained_task(content)).values()
    return controller


@torch.no_grad()
def attack(controller: Controller, view: View) -> np.ndarray:
    """Commands (W, N, 4) for what the robots measure of themselves and of each other."""
    worlds, robots = view.shape
    memory = view.memory.setdefault(LEARNED, controller.initial_memory(worlds, robots))
    others = np.array([[j for j in range(robots) if j != i] for i in range(robots)], dtype=int).reshape(robots, -1)
    pair = worlds, robots, robots - 1
    heard = Peers(view.now.pos[:, others], view.now.lin_vel_w[:, others], np.zeros(pair), np.ones(pair, dtype=bool))
    state = state_of(view.now, np.zeros((worlds, robots)))
    none = torch.zeros(worlds, robots, controller.policy.width)  # an attacker has no shield
    given = PolicyInput(_tensors(state), _tensors(heard), {}, {}, memory, none)
    target, view.memory[LEARNED], _, _ = controller(given)
    return target.target.double().numpy()


def _tensors(value: Any) -> Any:
    """The same with float32 tensors for arrays."""
    parts = (np.asarray(getattr(value, field.name)) for field in fields(value))
    return type(value)(*(torch.as_tensor(part if part.dtype == bool else part.astype(np.float32)) for part in parts))
