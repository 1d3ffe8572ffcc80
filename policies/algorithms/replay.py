"""What algorithms that learn off policy remember: the last control steps of a team, on disk in segments."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from policies.algorithms.algorithm import Experience, Group
from policies.checkpoint import CheckpointError, read_saved, replace_file
from sim.tree import flat, on_tensors

FOLDER = "replay"  # beside the checkpoint
SEGMENTS = 16  # of a whole replay; a checkpoint holds at most one of them, and the others are written once


class Replay:
    """Control steps of all groups in a ring of fixed size: rows of one world in one step, (rows, N, ...)."""

    def __init__(self, groups: Mapping[str, Group], size: int) -> None:
        """`size` in agent steps of all groups."""
        self.worlds = next(iter(groups.values())).shape[0]
        self.robots = sum(group.shape[1] for group in groups.values())
        steps = max(1, size // (self.worlds * self.robots))
        self.segment = max(1, steps // SEGMENTS)  # control steps
        self.capacity = steps // self.segment * self.segment  # control steps
        self.count = self.written = 0  # control steps seen, and whole segments on disk
        self.chunks = {name: group.network.chunk for name, group in groups.items()}
        self.columns: dict[str, Any] = {name: self._columns(group) for name, group in groups.items()}

    @property
    def agent_steps(self) -> int:
        """Seen so far, of all groups."""
        return self.count * self.worlds * self.robots

    def _columns(self, group: Group) -> dict[str, Any]:
        like, shape = group.obs.policy, group.shape
        flags = torch.zeros(shape, dtype=torch.bool, device=like.device)
        columns = {
            "obs": group.obs,
            "next": group.obs,
            "action": like.new_zeros(*shape, len(group.driven)),
            "reward": like.new_zeros(shape),
            **dict.fromkeys(("terminated", "ended", "acted"), flags),
        }
        made: dict[str, Any] = on_tensors(
            lambda tensor: tensor.new_zeros(self.capacity * self.worlds, *tensor.shape[1:]), columns
        )
        return made

    def add(self, team: Mapping[str, Experience]) -> None:
        """One control step, (W, N, ...) of each group."""
        start = self.count % self.capacity * self.worlds
        rows = slice(start, start + self.worlds)
        for name, step in team.items():
            new = {"obs": step.obs, "next": step.final_obs, "action": step.action, "reward": step.reward}
            new |= {"terminated": step.terminated, "ended": step.terminated | step.truncated, "acted": step.acted}
            on_tensors(lambda old, value: old[rows].copy_(value), self.columns[name], new)
        self.count += 1

    def sample(self, agent_steps: int, generator: torch.Generator, gamma: float, n_step: int = 1) -> dict[str, Any]:
        """Rows of all robots of a world, drawn with replacement, `agent_steps` in all: by group, see `rows`."""
        kept = min(self.count, self.capacity) * self.worlds
        index = torch.randint(kept, (max(1, agent_steps // self.robots),), generator=generator, device=generator.device)
        return {name: self.rows(name, index, gamma, n_step) for name in self.columns}

    def rows(self, group: str, index: Tensor, gamma: float, n_step: int = 1) -> dict[str, Any]:
        """The rows `index` (B,): obs and action, and what the next `n_step` control steps led to.

        `reward` (B, N) is their discounted sum, `next` what was seen after the last of them, and `discount` (B, N) what
        its value counts: 0 where the robot failed. Fewer steps where the episode ended, where a robot's actions were
        felt no more, or at the newest step. Of a group with chunks of k actions, the k from a row on are its `action`
        (B, N, k U), whether or not they were decided together, 0 where there were fewer, and k steps are its reward.
        """
        columns = self.columns[group]
        batch: dict[str, Any] = on_tensors(lambda tensor: tensor.index_select(0, index), columns)
        batch["discount"] = gamma * (~batch["terminated"]).to(batch["reward"].dtype)
        chunk = self.chunks[group]
        steps = max(n_step, chunk)
        if steps == 1:
            return batch
        actions = [batch["action"]]
        size = self.capacity * self.worlds
        later_steps = (self.count - 1 - index // self.worlds) % self.capacity  # that there are
        going, last = torch.ones_like(batch["acted"]), index[:, None].expand(batch["reward"].shape)
        robot = torch.arange(last.shape[1], device=index.device)
        for k in range(1, steps):
            later = (index + k * self.worlds) % size
            going = going & ~columns["ended"][last, robot] & columns["acted"][later] & (later_steps >= k)[:, None]
            batch["reward"] = batch["reward"] + gamma**k * going * columns["reward"][later]
            batch["discount"] = torch.where(going, gamma ** (k + 1) * ~columns["terminated"][later], batch["discount"])
            last = torch.where(going, later[:, None], last)
            actions.append(columns["action"][later] * going[..., None])
        batch["next"] = on_tensors(lambda tensor: tensor[last, robot], columns["next"])
        batch["action"] = torch.cat(actions[:chunk], dim=-1)
        return batch

    def _part(self, first: int, end: int) -> Any:
        """Views of the control steps from `first` to before `end`, which do not go round the ring."""
        start = first % self.capacity * self.worlds
        return on_tensors(lambda tensor: tensor[start : start + (end - first) * self.worlds], self.columns)

    @property
    def _oldest(self) -> int:
        """The first segment that is remembered, perhaps in part."""
        return max(0, self.count - self.capacity) // self.segment

    def write(self, folder: Path) -> None:
        """Write the segments that became whole; CheckpointError where that cannot be."""
        for number in range(max(self.written, self._oldest), self.count // self.segment):
            part = self._part(number * self.segment, (number + 1) * self.segment)
            tensors = [*(tensor.clone() for tensor in flat(part)), torch.tensor(number)]
            replace_file(_file(folder, number), partial(torch.save, tensors))
        self.written = self.count // self.segment

    def prune(self, folder: Path) -> None:
        """Take away segments that are remembered no more; once the checkpoint that needs them is replaced."""
        for path in (folder / FOLDER).glob("*.pt"):
            if int(path.stem) < self._oldest:
                path.unlink()

    def state_dict(self) -> dict[str, Any]:
        """What `write` has not written."""
        first = max(self.written * self.segment, self.count - self.capacity)
        pieces = [(first, self.count)]
        if first // self.capacity != self.count // self.capacity:  # it goes round the ring
            turn = self.count // self.capacity * self.capacity
            pieces = [(first, turn), (turn, self.count)]
        rest = on_tensors(lambda *tensors: torch.cat(tensors), *(self._part(*piece) for piece in pieces))
        return {"count": self.count, "written": self.written, "rest": rest}

    def read(self, folder: Path, state: Mapping[str, Any]) -> None:
        """Bring back the segments of a `state_dict`, before the rest; CheckpointError where one is lost or damaged."""
        oldest = max(0, state["count"] - self.capacity) // self.segment
        for number in range(oldest, state["written"]):
            part = self._part(number * self.segment, (number + 1) * self.segment)
            columns, path = flat(part), _file(folder, number)
            try:
                *saved, its_number = read_saved(path)
                if its_number != number or [kept.shape for kept in saved] != [old.shape for old in columns]:
                    raise CheckpointError(f"{path} is another segment than its name says, or of another run")
            except CheckpointError as error:
                goes = f"--start-from {folder} begins a new run with its networks"
                raise CheckpointError(
                    f"{folder} cannot be resumed, its replay is not whole: {error}; {goes}"
                ) from error
            for old, kept in zip(columns, saved, strict=True):
                old.copy_(kept)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` returned; it may stand where the oldest segment began."""
        self.count, self.written = state["count"], state["written"]
        first = max(self.written * self.segment, self.count - self.capacity)
        steps = torch.arange(first * self.worlds, self.count * self.worlds) % (self.capacity * self.worlds)
        on_tensors(
            lambda old, kept: old.index_copy_(0, steps.to(old.device), kept.to(old.device)), self.columns, state["rest"]
        )


def _file(folder: Path, number: int) -> Path:
    return folder / FOLDER / f"{number:09d}.pt"
