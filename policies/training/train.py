"""Training: rollouts, updates, logs and checkpoints, until the steps or the time are used up."""

import fcntl
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from policies.checkpoint import (
    BEST,
    FILE,
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
    save_policies,
    save_record,
)
from policies.records import RECORD
from policies.shards import ALONE, Shards, over_shards
from policies.training.config import CollectionCfg, MachineCfg, TrainCfg
from policies.training.logs import Logs
from policies.training.trainer import Trainer
from sim.physics import EngineError
from sim.physics.engine_errors import engine_errors

__all__ = ["CollectionCfg", "MachineCfg", "TrainCfg", "TrainResult", "Trainer", "train"]

LOCK = ".lock"
Progress = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class TrainResult:
    """What a run came to."""

    path: Path  # checkpoint
    return_curve: list[dict[str, float]]  # one entry an iteration: agent_steps, mean_return, success_rate, ...
    wall_s: float  # of training, over all processes of the run
    env_steps: int  # control periods x worlds, over all processes of the run
    agent_steps: int  # env_steps x robots
    steps_per_s: float  # agent steps/s in this process
    finished: bool  # False: stopped early, go on with `resume`
    interrupted: bool  # by Ctrl-C, which may come too late to stop it
    message: str


def train(
    cfg: TrainCfg, on_progress: Progress | None = None, stop: Callable[[], bool] | None = None, env: Any = None
) -> TrainResult:
    """Train until steps or time are used up, `stop()` says so, or Ctrl-C; the checkpoint is always written.

    `on_progress` gets every iteration's numbers. `env` replaces the environment that `cfg` describes. Started by
    `torchrun`, or with `cfg.machine.shards`, it is one training over all shards: the first writes, all return the same.
    """
    return over_shards(lambda shards: train_shard(cfg, on_progress, stop, env, shards), cfg.machine.shards)


def train_shard(
    cfg: TrainCfg,
    on_progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    env: Any = None,
    shards: Shards = ALONE,
) -> TrainResult:
    """As `train`, of one shard."""
    with ExitStack() as stack:
        with shards.together(in_turn=True):
            if not shards.index:
                stack.enter_context(alone_in(cfg.out))
            trainer, resumed = _begin(cfg, env, shards)
        return _train(trainer, resumed, on_progress, stop)


def _begin(cfg: TrainCfg, env: Any, shards: Shards) -> tuple[Trainer, bool]:
    """A new trainer, or one that goes on from the checkpoint, and whether it does."""
    path = cfg.out / FILE
    if cfg.out.exists() and not cfg.out.is_dir():
        raise ValueError(f"out = {cfg.out}: is a file, wanted a folder")
    saved = load_checkpoint(path) if cfg.resume else {}
    if not cfg.resume and path.exists():
        goes_on = f"phalanx train --resume {path.parent} goes on with that run"
        raise CheckpointError(f"{path} exists: {goes_on}; another one needs another --out")
    if not cfg.resume and (other := _not_of_a_run(cfg.out)):
        raise ValueError(f"out = {cfg.out}: has other files, such as {other}; wanted a new folder or an empty one")
    if saved and cfg.machine.engine is None:
        cfg = replace(cfg, machine=replace(cfg.machine, engine=saved.get("made_on", {}).get("engine")))
    with engine_errors(cfg.machine.engine or "mujoco", cfg.collection.num_envs, cfg.machine.device):
        trainer = Trainer(cfg, env, shards)
    if saved:
        trainer.load_state_dict(saved)
    if not shards.index:
        save_record(cfg.out, trainer.run)
    return trainer, bool(saved)


def _not_of_a_run(folder: Path) -> str:
    """A file of a `folder` that no run was begun in, or an empty string."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    ours = (LOCK, f"{RECORD}.tmp")  # the first of several processes may be about to write its record
    return "" if RECORD in names else next((name for name in names if name not in ours), "")


def _train(
    trainer: Trainer, resumed: bool, on_progress: Progress | None, stop: Callable[[], bool] | None
) -> TrainResult:
    cfg, path = trainer.cfg, trainer.cfg.out / FILE
    began, before, before_s = time.perf_counter(), trainer.agent_steps, trainer.wall_s

    def tell(numbers: dict[str, float]) -> None:
        if on_progress is not None and not trainer.shards.index:
            on_progress(_progress(cfg, trainer, numbers, time.perf_counter() - began))

    def tell_look(numbers: dict[str, float], share: float) -> None:
        tell({**numbers, "held_out": share})

    with _interrupt() as interrupted, _logs(trainer) as logs, closing(trainer):
        while True:
            trainer.wall_s = before_s + time.perf_counter() - began
            fraction = _fraction(cfg, trainer.agent_steps, trainer.wall_s)
            over = fraction >= 1 or trainer.reached or interrupted() or (stop is not None and stop())
            # Clocks differ, and who presses Ctrl-C reaches one process first
            asked = torch.tensor([[fraction, over]], dtype=torch.float64)
            fraction, over = trainer.shards.joined(asked).amax(0).tolist()
            if over:
                break
            with _with_advice(cfg, trainer.engine, path):
                numbers = trainer.iterate(fraction)
                with trainer.shards.together():
                    if logs is not None:
                        logs.write(numbers, trainer.agent_steps, before_s + time.perf_counter() - began)
                if cfg.keep_every and trainer.iteration % cfg.keep_every == 0:
                    content = trainer.state_dict()  # before the checkpoint, after which a run does not come here again
                    with trainer.shards.together():
                        if logs is not None:
                            save_policies(path.with_name(f"iteration-{trainer.iteration:06}.pt"), content)
                if trainer.iteration % cfg.checkpoint_every == 0:
                    _save(trainer, logs, path, partial(tell_look, numbers))
            tell(numbers)
        trainer.wall_s = before_s + time.perf_counter() - began
        with _with_advice(cfg, trainer.engine, path):
            _save(trainer, logs, path)
    wall_s = time.perf_counter() - began
    done = fraction >= 1 or trainer.reached
    message = f"trained {trainer.agent_steps:,} agent steps in {trainer.wall_s:.0f} s"
    late = trainer.agent_steps < cfg.total_steps and cfg.wall_budget_s is not None
    if late:
        message += f", for --wall-budget-s {cfg.wall_budget_s:g} is used up"
    if cfg.stop_at is not None:
        message += f"; a success of {100 * cfg.stop_at:g} % was not shown"
    if resumed and trainer.agent_steps == before:
        more = f"--wall-budget-s S, above {trainer.wall_s:.0f}" if late else "--steps N"
        message = f"was trained to {before:,} agent steps before; to go on: phalanx train --resume {cfg.out} {more}"
    if trainer.reached:
        shown = f"a success of {100 * trainer.shown:.1f} % or more is shown on held-out starts"
        message = f"trained {trainer.agent_steps:,} agent steps: {shown}; to go on: a higher --stop-at"
    if trainer.iteration <= trainer.algorithm.lag:
        lag, least = f"{trainer.algorithm.Cfg.NAME}.lag", trainer.algorithm.lag * trainer.steps_per_iteration
        message += f"; nothing is learned from the first {least:,}, for {lag} is {trainer.algorithm.lag}"
    if trainer.best is None:
        message += f"; no best policies yet, for not every world has ended a whole episode{_enough(trainer)}"
    if not done:
        message = f"stopped at {trainer.agent_steps:,} agent steps; to go on: phalanx train --resume {cfg.out}"
    return TrainResult(
        path=path,
        return_curve=trainer.curve,
        wall_s=trainer.wall_s,
        env_steps=trainer.agent_steps // trainer.num_robots,
        agent_steps=trainer.agent_steps,
        steps_per_s=(trainer.agent_steps - before) / max(wall_s, 1e-9),
        finished=done,
        interrupted=interrupted(),
        message=message,
    )


def _enough(trainer: Trainer) -> str:
    """How long a training lets every world end a whole episode, where that is known; its first one is cut short."""
    longest = getattr(trainer.collector.env, "max_steps", 0) * trainer.steps_per_iteration // trainer.algorithm.horizon
    return f" ({2 * longest:,} agent steps are enough)" if longest else ""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """ValueError while another process trains in `folder`; what else is wrong with it is said by those who write."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    is_first = not (folder / LOCK).exists()
    with ExitStack() as stack:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / LOCK).open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"out = {folder}: another process trains in it") from None
        try:
            yield
        except BaseException:
            if is_first and not (folder / RECORD).exists():  # nothing came of it
                with suppress(OSError):
                    (folder / LOCK).unlink()
                    for path in made:
                        path.rmdir()
            raise


@contextmanager
def _logs(trainer: Trainer) -> Iterator[Logs | None]:
    """Logs of the first shard, which writes; None of the others."""
    if trainer.shards.index:
        yield None
        return
    with Logs(trainer.cfg.out, trainer.agent_steps, trainer.run if trainer.cfg.wandb else None) as logs:
        yield logs


def _save(trainer: Trainer, logs: Logs | None, path: Path, on_look: Callable[[float], None] | None = None) -> None:
    """Write the checkpoint, after the numbers of its iteration, and the policies when they are the best so far.

    With `on_look` the best so far also fly held-out starts, where that may end training, and it hears how far they are.
    """
    score = trainer.score()
    better = score is not None and (trainer.best is None or score > trainer.best)
    trainer.best = score if better else trainer.best
    if better and on_look is not None and trainer.cfg.stop_at is not None:
        from policies.training.held_out import look  # loads what flies policy files

        look(trainer, on_look)
    replay = trainer.algorithm.replay
    with trainer.shards.together():
        if replay is not None:
            replay.write(trainer.folder)
    content = trainer.state_dict()
    with trainer.shards.together():
        if logs is not None:
            logs.progress.sync()
            if better:
                save_policies(path.with_name(BEST), content)
            save_checkpoint(path, content)
    if replay is not None:
        replay.prune(trainer.folder)


@contextmanager
def _with_advice(cfg: TrainCfg, engine: str, checkpoint: Path) -> Iterator[None]:
    """What breaks in an engine, its accelerator or the disk becomes one line that says how to go on."""
    try:
        with engine_errors(engine, cfg.collection.num_envs, cfg.machine.device):
            yield
    except (EngineError, CheckpointError, OSError) as error:
        kind = EngineError if isinstance(error, EngineError) else CheckpointError
        again = f"phalanx train --resume {cfg.out}{', or on another --engine' if kind is EngineError else ''}"
        way = f"go on from its checkpoint with {again}" if checkpoint.exists() else "no checkpoint had been written yet"
        what = f"cannot write in {cfg.out}: {error.strerror or error}" if isinstance(error, OSError) else error
        raise kind(f"{what}; {way}") from error


def _fraction(cfg: TrainCfg, agent_steps: int, wall_s: float) -> float:
    """How much of the training is over, 0 to 1: by steps or by time, whichever is farther."""
    by_time = wall_s / cfg.wall_budget_s if cfg.wall_budget_s is not None else 0.0
    return min(max(agent_steps / cfg.total_steps, by_time), 1.0)


def _progress(cfg: TrainCfg, trainer: Trainer, numbers: dict[str, float], wall_s: float) -> dict[str, float]:
    fraction = _fraction(cfg, trainer.agent_steps, wall_s)
    counters = {"iteration": trainer.iteration, "agent_steps": trainer.agent_steps, "total_steps": cfg.total_steps}
    return {**numbers, **counters, "fraction": fraction, "wall_s": wall_s}


@contextmanager
def _interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C only sets a flag, so that the iteration ends and is saved; a second one acts as usual."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def on_sigint(number: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, on_sigint)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
