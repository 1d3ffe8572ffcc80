"""Where the camera looks: at the whole of an episode, or with robots that walk away."""

import numpy as np

LEAST_M = 0.8  # nothing is looked at from closer than this asks for
BODY_M = 0.15  # bodies are larger than the points that stand for them
FOLLOW = 0.3  # what travels farther than this share of the size of the picture is followed
SMOOTH_S = 1.0


def framing(points: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre of the picture (T, 3) m and its size, m, for points (T, M, 3) m at the times `t` (T,) s.

    The centre stands still, unless what is seen travels far: then it goes along.
    """
    low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
    low[2] = min(low[2], 0.0)
    spread = points.max(axis=1) - points.min(axis=1)
    tall = 1.2 * float(high[2] - low[2])
    own = BODY_M + max(LEAST_M, float(spread[:, :2].max()), tall)
    travelled = float((high - low)[:2].max() - spread[:, :2].max())
    if travelled <= FOLLOW * own:
        return np.broadcast_to((low + high) / 2, (len(t), 3)), own + travelled
    path = points.mean(axis=1)
    path[:, 2] = (low[2] + high[2]) / 2
    return _smoothed(path, t), own


def camera_axes(azimuth: float, elevation: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right, up and towards the eye, (3,) each, world, of a camera that stands at `azimuth` and `elevation` rad."""
    ca, sa, ce, se = np.cos(azimuth), np.sin(azimuth), np.cos(elevation), np.sin(elevation)
    return np.array([-sa, ca, 0.0]), np.array([-se * ca, -se * sa, ce]), np.array([ce * ca, ce * sa, se])


def _smoothed(path: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Mean of `path` (T, 3) over about `SMOOTH_S` around each moment."""
    half = int(np.searchsorted(t, t[0] + SMOOTH_S / 2))
    padded = np.pad(path, ((half, half), (0, 0)), mode="edge")
    total = np.cumsum(np.vstack([np.zeros((1, 3)), padded]), axis=0)
    width = 2 * half + 1
    return (total[width:] - total[:-width]) / width
