"""Nonlinear least squares over windows: the robot's numbers, and where each window really started.

Measurements at a window's start are noisy, so that start is fitted too, by variable projection: of the errors only that
part counts that no other start explains (Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least
squares problems whose variables separate", SIAM J. Numer. Anal. 10, 1973).
Intervals are those of Gauss and Newton with errors that are correlated in time (Newey and West, "A simple, positive
semi-definite, heteroskedasticity and autocorrelation consistent covariance matrix", Econometrica 55, 1987), and of
windows as clusters where there are enough (Liang and Zeger, "Longitudinal data analysis using generalized linear
models", Biometrika 73, 1986).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtri

from hardware.spec import RobotSpec
from sim.identification.replay import AXES, Candidate, Replay
from sim.identification.windows import Windows, error_names, moved, row_errors

STEP = 0.02  # of a prior's width, in finite differences
START_STEP = {"m": 1e-3, "rad": 1e-3, "m/s": 5e-3, "rad/s": 1e-2}  # of a window's start
START_WIDTH = 100.0  # steps by which a start may be off
NOISE = {"m": 2e-3, "rad": 5e-3, "m/s": 0.03, "rad/s": 0.1}  # first guess of how well the model can agree
LEAST_NOISE = {"m": 1e-5, "rad": 1e-5, "m/s": 1e-4, "rad/s": 1e-4}
INSIDE = 0.2  # of a prior's width, where a fit begins that may not begin at the nominal value, which is a bound
ORIGIN = 1.0  # the solver's first step is as long as its start is from zero
EVALUATIONS = 6  # of the squares, in each pass
CONFIDENCE = 0.95
MOST_LAG = 20  # moments over which errors are taken to be correlated
CLUSTERS = 4  # windows for each number from which on they are also taken as clusters


@dataclass(frozen=True)
class Prior:
    """What is known of a number before: its nominal value, a range that holds nearly all robots, and hard bounds."""

    nominal: float
    width: float  # half of that range
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """Numbers by name, their 95 % intervals, and how much of the prior's width is left of each."""

    values: Mapping[str, float]
    half: Mapping[str, float]  # of the interval
    left: Mapping[str, float]
    correlation: np.ndarray  # (P, P) in the order of `values`
    noise: np.ndarray  # (D,) RMS of what is left of each error


class Problem:
    """The errors of a replay against the windows of a recording; D errors a moment, in units of `noise` (D,)."""

    def __init__(self, spec: RobotSpec, replay: Replay, windows: Windows, fixed: Mapping[str, float]):
        """`fixed` numbers are given with every candidate."""
        self.spec, self.replay, self.windows, self.fixed = spec, replay, windows, dict(fixed)
        units = [unit for _, unit in error_names(spec)]
        self.noise = np.array([NOISE[unit] for unit in units])
        self.least_noise = np.array([LEAST_NOISE[unit] for unit in units])
        more = len(AXES) * replay.firmware
        self.step = np.array([START_STEP[unit] for unit in (*units, *["rad"] * more)])
        self.start = np.pad(windows.rows[:, 0], ((0, 0), (0, more)))

    def errors(self, candidates: Sequence[Mapping[str, float]]) -> np.ndarray:
        """(C, B, M + 1, D) in SI units."""
        return self._errors([Candidate({**self.fixed, **values}, self.start) for values in candidates])

    def errors_from(self, values: Mapping[str, float], starts: Sequence[np.ndarray]) -> np.ndarray:
        """(S, B, M + 1, D) in SI units, of replays with the same values from other starts."""
        return self._errors([Candidate({**self.fixed, **values}, start) for start in starts])

    def start_basis(self, values: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """(B, n, D) how errors change with a window's start, n = (M + 1) D of them, and (B, M + 1, D) errors, SI."""
        size = len(self.step)
        starts = [moved(self.spec, self.start, row) for row in np.diag(self.step)]
        errors = self.errors_from(values, [self.start, *starts])
        change = (errors[1:] - errors[0]) / self.step[:, None, None, None]
        return np.moveaxis(change, 0, -1).reshape(len(self.start), -1, size), errors[0]

    def _errors(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return row_errors(self.spec, self.replay.rows(candidates, self.windows), self.windows.rows)


def fit(
    problem: Problem,
    priors: Mapping[str, Prior],
    passes: int = 3,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Fit:
    """The numbers of `priors` that make replays agree best with what was measured."""
    names, widths = list(priors), np.array([p.width for p in priors.values()])
    nominal = np.array([p.nominal for p in priors.values()])
    low, high = (np.array([getattr(p, end) for p in priors.values()]) for end in ("low", "high"))
    bounds = (low - nominal) / widths, (high - nominal) / widths
    z = np.where(bounds[0] < 0.0, 0.0, INSIDE)
    side = np.where(bounds[1] < STEP, -STEP, STEP)
    evaluated = 0

    def values(point: np.ndarray) -> dict[str, float]:
        return dict(zip(names, (nominal + widths * point).tolist(), strict=True))

    def errors_and_slopes(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B, n) what no other start explains, in units of the noise, and (B, n, P) how it changes."""
        nonlocal evaluated
        evaluated += 1
        on_progress(min(1.0, evaluated / (passes * EVALUATIONS)))
        step = np.where(point + side > bounds[1], -side, side)
        all_errors = problem.errors([values(point), *(values(point + row) for row in np.diag(step))])
        here, *there = _projected(problem, all_errors, basis)
        return here, np.moveaxis(np.array(there) - here, 0, -1) / step

    change, errors = problem.start_basis(values(z))
    for number in range(passes):
        basis = _orthogonal(problem, change)
        evaluated = number * EVALUATIONS
        z = _solve(errors_and_slopes, z, bounds)
        change, errors = problem.start_basis(values(z))
        errors = _correct_starts(problem, values(z), change, errors)
        problem.noise = np.maximum(np.sqrt((errors**2).mean((0, 1))), problem.least_noise)
    basis = _orthogonal(problem, change)
    found, slopes = errors_and_slopes(z)
    half = float(ndtri(0.5 + CONFIDENCE / 2)) * _spread(found, slopes, len(problem.noise))
    covariance = np.linalg.inv(np.einsum("bnp,bnq->pq", slopes, slopes, optimize=True) + np.eye(len(names)))
    spread = np.sqrt(np.diag(covariance))
    on_progress(1.0)
    return Fit(
        values(z),
        dict(zip(names, (half * widths).tolist(), strict=True)),
        dict(zip(names, half.tolist(), strict=True)),
        covariance / spread / spread[:, None],
        problem.noise.copy(),
    )


def _solve(
    errors_and_slopes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    start: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """The point (P,) between `bounds` at which the squares of the errors and of the point itself are least.

    Slopes come with the errors, although some are not asked for: a replay of more candidates takes hardly longer.
    """
    newest: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def at(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if (key := point.tobytes()) not in newest:
            newest.clear()
            newest[key] = errors_and_slopes(point - ORIGIN)
        return newest[key]

    solved = least_squares(
        lambda point: np.append(at(point)[0], point - ORIGIN),
        start + ORIGIN,
        lambda point: np.vstack([at(point)[1].reshape(-1, len(point)), np.eye(len(point))]),
        bounds=(bounds[0] + ORIGIN, bounds[1] + ORIGIN),
        max_nfev=EVALUATIONS,
        xtol=1e-5,
        ftol=1e-6,
    )
    return solved.x - ORIGIN


def remaining(problem: Problem, values: Mapping[str, float]) -> np.ndarray:
    """(B, M + 1, D) what no other start of each window explains of the errors under `values`, SI; starts are moved."""
    return _correct_starts(problem, values, *problem.start_basis(values))


def _orthogonal(problem: Problem, change: np.ndarray) -> np.ndarray:
    """(B, n, D) an orthonormal basis of what other starts can do to the errors, in units of the noise."""
    return np.linalg.qr(_scaled(problem, change))[0]


def _scaled(problem: Problem, change: np.ndarray) -> np.ndarray:
    """How errors change with starts (B, n, D) from SI to units of the noise."""
    return change / np.tile(problem.noise, change.shape[1] // len(problem.noise))[:, None]


def _projected(problem: Problem, errors: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """(C, B, n) errors (C, B, M + 1, D) in units of the noise, less what another start explains."""
    flat = (errors / problem.noise).reshape(*errors.shape[:2], -1)
    along = np.einsum("bnd,cbn->cbd", basis, flat)
    return flat - np.einsum("bnd,cbd->cbn", basis, along)


def _correct_starts(
    problem: Problem, values: Mapping[str, float], change: np.ndarray, errors: np.ndarray, passes: int = 2
) -> np.ndarray:
    """Move each window's start to where its errors are least, if they are; (B, M + 1, D) what is left of them, SI.

    `change` and `errors` are those of `Problem.start_basis`: starts move so little that it serves all passes.
    """
    scaled = _scaled(problem, change)
    known = np.diag(1.0 / (START_WIDTH * problem.step))  # what measurements say nothing about stays where it is
    zeros = np.zeros(len(known))
    for _ in range(passes):
        flat = (errors / problem.noise).reshape(len(errors), -1)
        move = -np.stack(
            [np.linalg.lstsq(np.vstack([b, known]), np.append(e, zeros))[0] for b, e in zip(scaled, flat, strict=True)]
        )
        # Friction and limits of the drives are no straight lines: the longest way that makes the errors less.
        starts = [moved(problem.spec, problem.start, share * move) for share in (0.25, 0.5, 1.0)]
        before = np.square(errors / problem.noise).sum((1, 2))
        for start, new in zip(starts, problem.errors_from(values, starts), strict=True):
            better = np.square(new / problem.noise).sum((1, 2)) < before
            problem.start = np.where(better[:, None], start, problem.start)
            errors = np.where(better[:, None, None], new, errors)
    return errors


def _spread(residuals: np.ndarray, jacobian: np.ndarray, signals: int) -> np.ndarray:
    """(P,) standard deviations from residuals (B, n) of `signals` D and derivatives (B, n, P), prior of width one.

    Errors are correlated in time as those of all windows together are, signal by signal. With many windows also
    whatever else is common within a window counts, and the larger of both is taken.
    """
    count, n, size = jacobian.shape
    moments = n // signals
    bread = np.linalg.inv(np.einsum("bnp,bnq->pq", jacobian, jacobian, optimize=True) + np.eye(size))
    errors = residuals.reshape(count, moments, signals)
    slopes = jacobian.reshape(count, moments, signals, size)
    meat, lags = np.eye(size), min(MOST_LAG, moments // 2)
    for lag in range(lags):
        later, now = slice(lag, None), slice(None, moments - lag)
        common = (errors[:, later] * errors[:, now]).sum((0, 1)) / (count * (moments - lag))
        both = np.einsum("btdp,btdq,d->pq", slopes[:, later], slopes[:, now], common, optimize=True)
        meat += (1.0 - lag / lags) * (both if lag == 0 else both + both.T)
    found = [bread @ meat @ bread]
    if count > CLUSTERS * size:
        scores = np.einsum("bnp,bn->bp", jacobian, residuals)
        found.append(bread @ (scores.T @ scores * count / (count - size) + np.eye(size)) @ bread)
    return np.sqrt(np.max([np.diag(each) for each in found], axis=0))
