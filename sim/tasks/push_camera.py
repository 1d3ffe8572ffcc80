"""push-camera: as push, by an arm that finds the puck with a camera, where push has motion capture."""

from sim.tasks.parts import panda
from sim.tasks.push import GROUP, PUSH

PUSH_CAMERA = PUSH.changed(
    name="push-camera",
    summary="as push, by an arm that finds the puck with a camera",
    noise=panda.CAMERA_NOISE,
    randomisation={**GROUP.randomisation, **panda.CAMERA},
    train_steps=6_000_000,
)
