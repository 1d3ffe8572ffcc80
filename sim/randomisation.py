"""What differs from world to world, and in time. Each function changes something for the worlds it is given.

A task names them with their ranges; `EventTerm.interval_range_s` says whether again in the course of an episode.
"Scale" is a factor on the robot's nominal value.
"""

import numpy as np
import torch

from sim.envs.robots import DELAYS, RobotGroup
from sim.noise import Noise
from sim.scenes.terrain import PERIOD, ROUGHEST_M

LEAST = 0.01  # of a nominal mass, lag or exponent: physics needs some
Range = tuple[float, float]
Tensor = torch.Tensor


def mass(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    """Mass and inertia of each robot, all its bodies by the same factor."""
    factor = _uniform((len(worlds), robots.num_robots), scale, generator, LEAST)
    _scale_inertia(robots, worlds, torch.as_tensor(robots.group.bodies), factor)


def base_mass(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, add_kg: Range) -> None:
    """Mass added to each robot's base: a payload, another battery; its inertia grows in proportion."""
    bodies = torch.as_tensor(robots.group.base_body)
    nominal = robots.physics.field("body_mass")[bodies]
    least = (LEAST - 1.0) * float(nominal.min())
    factor = 1.0 + _uniform((len(worlds), robots.num_robots), add_kg, generator, least) / nominal
    _scale_inertia(robots, worlds, bodies.unsqueeze(-1), factor)


def object_mass(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    """Mass and inertia of every tracked object."""
    bodies = torch.tensor([[tracked.body] for tracked in robots.physics.scene.objects])
    factor = _uniform((len(worlds), len(bodies)), scale, generator, LEAST)
    _scale_inertia(robots, worlds, bodies, factor)


def centre_of_mass(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, shift_m: Range) -> None:
    """Where the centre of mass of each base is, moved along every axis."""
    bodies = torch.as_tensor(robots.group.base_body)
    nominal = robots.physics.field("body_ipos")[bodies]
    shift = _uniform((len(worlds), len(bodies), 3), shift_m, generator)
    robots.physics.set_field("body_ipos", worlds, bodies, nominal + shift)


def friction(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    """Sliding friction of everything in a world, by the same factor."""
    nominal = robots.physics.field("geom_friction")
    factor = _uniform((len(worlds), 1), scale, generator, 0.0)
    values = nominal.expand(len(worlds), -1, -1).clone()
    values[..., 0] *= factor
    robots.physics.set_field("geom_friction", worlds, torch.arange(len(nominal)), values)


def terrain(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, roughness_m: Range) -> None:
    """Bumps and steps of the ground of up to the roughness, on waves as high; the curriculum's difficulty scales it."""
    if robots.ground is None:
        raise ValueError("terrain: this scene has a plain floor; give its task the props `uneven_ground`")
    if not 0.0 <= roughness_m[0] <= roughness_m[1] <= ROUGHEST_M:
        raise ValueError(f"roughness range {roughness_m} m: 0 to {ROUGHEST_M:g} m is possible, the smaller one first")
    roughness = robots.difficulty[worlds] * _uniform((len(worlds),), roughness_m, generator)
    origin = torch.randint(PERIOD, (len(worlds), 2), generator=generator)
    robots.set_ground(robots.ground.renewed(worlds, origin, roughness), worlds)


def armature(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    """Rotor inertia of every joint."""
    _scale_joints(robots, "dof_armature", worlds, generator, scale)


def joint_friction(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    """Dry friction of every joint."""
    _scale_joints(robots, "dof_frictionloss", worlds, generator, scale)


def gains(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, stiffness: Range, damping: Range) -> None:
    """Stiffness and damping of every joint's drive, as factors."""
    channels = _joint_channels(robots)
    count = (len(worlds), len(channels))
    kp, kd = _uniform(count, stiffness, generator, 0.0), _uniform(count, damping, generator, 0.0)
    gain = robots.physics.field("actuator_gainprm")[channels].expand(len(worlds), -1, -1).clone()
    bias = robots.physics.field("actuator_biasprm")[channels].expand(len(worlds), -1, -1).clone()
    gain[..., 0] *= kp
    bias[..., 1] *= kp
    bias[..., 2] *= kd
    robots.physics.set_field("actuator_gainprm", worlds, channels, gain)
    robots.physics.set_field("actuator_biasprm", worlds, channels, bias)


def motor_strength(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    """The most that every joint's drive can give."""
    channels = _joint_channels(robots)
    nominal = robots.physics.field("actuator_forcerange")[channels]
    factor = _uniform((len(worlds), len(channels)), scale, generator, 0.0)
    robots.physics.set_field("actuator_forcerange", worlds, channels, nominal * factor.unsqueeze(-1))


def thrust(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    """Thrust that the rotors really give, as a share of what was asked: propeller wear, battery."""
    robots.strength[worlds, :, 0] = _uniform((len(worlds), robots.num_robots), scale, generator, 0.0)


def thrust_curve(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, exponent: Range) -> None:
    """Shape of the thrust curve: real thrust = full thrust * (asked / full) ** exponent."""
    robots.curve[worlds, :, 0] = _uniform((len(worlds), robots.num_robots), exponent, generator, LEAST)


def battery_sag(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, share: Range) -> None:
    """Thrust lost, as a share of what is left, each time that it is called: for intervals."""
    lost = _shares((len(worlds), robots.num_robots), share, generator)
    robots.strength[worlds, :, 0] *= 1.0 - lost


def rate_loop(
    robots: RobotGroup, worlds: Tensor, generator: torch.Generator, gain: Range, lag: Range, trim: Range, own: float
) -> None:
    """Rate loop and rotors of each drone: a factor on each part of the PID, and one on the rotors' lag.

    Each rotor gives 1 + `trim` of its thrust. A share `own` of the drones has the model's own loop instead.
    """
    if robots.rate_loops is None:
        raise ValueError(
            "rate_loop: drones of this task fly by their model's own loop; give its group `rate_loop=True`"
        )
    state, count = robots.rate_loops.state, (len(worlds), robots.num_robots)
    state["gain"][worlds] = _uniform((*count, 3), gain, generator, 0.0)
    state["lag"][worlds] = _uniform((*count, 1), lag, generator, LEAST)
    state["trim"][worlds] = 1.0 + _uniform((*count, state["trim"].shape[-1]), trim, generator, -1.0)
    state["slow"][worlds] = torch.rand(count, generator=generator) < _share(own)


def lost_commands(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, share: Range) -> None:
    """Lose the next command of a share of the robots, who hold the last one. For intervals of (0, 0)."""
    count = len(worlds), robots.num_robots
    robots.lost[worlds] = torch.rand(count, generator=generator) < _shares(count, share, generator)


def motor_failure(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, probability: float) -> None:
    """With `probability` the drives of one robot of a world stop for good; of each world one at most. For intervals."""
    struck = torch.rand(len(worlds), generator=generator) < _share(probability)
    struck &= ~robots.dead[worlds].any(-1)
    robot = torch.randint(0, robots.num_robots, (len(worlds),), generator=generator)
    robots.stop_drives(worlds[struck], robot[struck])


def wind(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, force_n: Range) -> None:
    """A steady horizontal force on every base, the same direction for all robots of a world."""
    angle = _uniform((len(worlds), 1), (0.0, 2 * np.pi), generator)
    force = _uniform((len(worlds), robots.num_robots), force_n, generator)
    robots.force[worlds] = torch.stack([force * angle.cos(), force * angle.sin(), 0.0 * force], dim=-1)


def push(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, speed_m_s: Range) -> None:
    """A horizontal push on every base that changes its velocity at once, in a direction of its own."""
    columns = torch.as_tensor(robots.group.base_qvel[:, :2])
    angle = _uniform((len(worlds), robots.num_robots), (0.0, 2 * np.pi), generator)
    speed = _uniform((len(worlds), robots.num_robots), speed_m_s, generator)
    change = torch.stack([speed * angle.cos(), speed * angle.sin()], dim=-1)
    robots.physics.add_velocity(worlds, columns.flatten(), change.flatten(1))


def sensor_bias(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, bias: Noise) -> None:
    """Constant errors of each robot's sensors, normally distributed.

    `angle_rad` of it is also how far an IMU is mounted askew: attitude is measured in axes that are turned by so much.
    By how much that changes measured rates is part of `ang_vel_rad_s`.
    """
    draw = torch.randn(len(worlds), *robots.bias.shape[1:], generator=generator)
    robots.bias[worlds] = draw * torch.tensor(bias.per_column(robots.num_joints))


def sensor_drift(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, step: Noise) -> None:
    """Let the constant errors of each robot's sensors walk on: each time by a normally distributed step. For intervals.

    What an episode begins with is `sensor_bias`, or none.
    """
    draw = torch.randn(len(worlds), *robots.bias.shape[1:], generator=generator)
    robots.bias[worlds] += draw * torch.tensor(step.per_column(robots.num_joints))


def lost_states(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, share: Range, hold_s: Range) -> None:
    """Lose what a share of the robots measure and see: it stays as it was for `hold_s`, and ages.

    That is a control step at least. For intervals of (0, 0): the share is that of robots in which it begins now.
    """
    count, control_s = (len(worlds), robots.num_robots), robots.decimation * robots.dt
    begins = torch.rand(count, generator=generator) < _shares(count, share, generator)
    steps = (_uniform(count, hold_s, generator, 0.0) / control_s).round().clamp(min=1.0).long()
    left = (robots.held_states[worlds] - 1).clamp(min=0)
    robots.held_states[worlds] = torch.where(begins, torch.maximum(left, steps), left)


def actuator_delay(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Time from a command's computation until it acts, for each robot; rounded to physics steps."""
    _delay(robots, "actuator_delay", worlds, _steps(robots, worlds, generator, range_s, robots.decimation))


def sensor_delay(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Age of each robot's own state, and of what it sees, when its policy runs; rounded to physics steps."""
    _delay(robots, "sensor_delay", worlds, _steps(robots, worlds, generator, range_s, robots.max_delay_steps))


def network_delay(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Age of what each robot is heard to say; rounded to physics steps."""
    _delay(robots, "network_delay", worlds, _steps(robots, worlds, generator, range_s, robots.max_delay_steps))


def actuator_jitter(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Time that the next command takes beyond `actuator_delay`, a control period in all at most. For intervals."""
    _jitter(robots, worlds, generator, range_s, "actuator_delay", robots.decimation)


def sensor_jitter(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Age of the next own state, and of what is seen, beyond `sensor_delay`; it never goes back. For intervals."""
    _jitter(robots, worlds, generator, range_s, "sensor_delay", robots.max_delay_steps)


def network_jitter(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range) -> None:
    """Age of what is heard next beyond `network_delay`; a message that another one overtook is left. For intervals."""
    _jitter(robots, worlds, generator, range_s, "network_delay", robots.max_delay_steps)


def dropped_messages(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, share: Range) -> None:
    """Share of the messages between robots that are lost; the last one heard stands, and ages."""
    robots.dropout[worlds] = _shares((len(worlds),), share, generator)


def camera(
    robots: RobotGroup, worlds: Tensor, generator: torch.Generator, delay_s: Range, missing: Range, offset: Noise
) -> None:
    """How each robot finds objects: by pictures that are `delay_s` older than its own state, rounded to physics steps.

    A share `missing` of the control steps has no new one, since a camera is slower or finds nothing; the last one
    stands, and ages. Places and attitudes are all off by the same `offset`, normally distributed, as where a camera is
    mounted is not known exactly.
    """
    if not robots.physics.scene.objects:
        raise ValueError("camera: this task tracks no objects")
    state, count = robots.cameras.state, (len(worlds), robots.num_robots)
    state["delay"][worlds] = _steps(robots, worlds, generator, delay_s, robots.cameras.most_delay)
    state["missing"][worlds] = _shares(count, missing, generator)
    state["offset"][worlds] = torch.randn(*count, 12, generator=generator) * torch.tensor(offset.per_column(0))


def _share(share: float) -> float:
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share {share}: 0 to 1 is possible")
    return share


def _shares(shape: tuple[int, ...], share: Range, generator: torch.Generator) -> Tensor:
    if not 0.0 <= min(share) <= max(share) <= 1.0:
        raise ValueError(f"share {share}: 0 to 1 is possible")
    return _uniform(shape, share, generator)


def _uniform(shape: tuple[int, ...], bounds: Range, generator: torch.Generator, least: float = -np.inf) -> Tensor:
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"range ({low}, {high}): needs two finite numbers, low <= high")
    if low < least:
        raise ValueError(f"range ({low}, {high}): {least:g} or more is possible")
    return low + (high - low) * torch.rand(shape, generator=generator)


def _steps(robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range, most: int) -> Tensor:
    if not (min(range_s) >= 0.0 and max(range_s) < (most + 0.5) * robots.dt):
        raise ValueError(f"delay range {range_s} s: 0 to {most * robots.dt:.3f} s is possible")
    return (_uniform((len(worlds), robots.num_robots), range_s, generator) / robots.dt).round().long()


def _jitter(
    robots: RobotGroup, worlds: Tensor, generator: torch.Generator, range_s: Range, name: str, most: int
) -> None:
    """Add what is drawn to the constant part of the delay `name`, in the place of what was added before."""
    constant = getattr(robots, name)[worlds] - robots.jitter[worlds, :, DELAYS.index(name)]
    whole = (constant + _steps(robots, worlds, generator, range_s, most)).clamp(max=most)
    _delay(robots, name, worlds, whole, whole - constant)


def _delay(robots: RobotGroup, name: str, worlds: Tensor, steps: Tensor, jitter: Tensor | float = 0) -> None:
    """Set the delay `name` (K, N), in physics steps, of which `jitter` is no constant part."""
    getattr(robots, name)[worlds] = steps
    robots.jitter[worlds, :, DELAYS.index(name)] = jitter


def _scale_inertia(robots: RobotGroup, worlds: Tensor, bodies: Tensor, factor: Tensor) -> None:
    """Mass and inertia of `bodies` (N, B) times factor (K, N)."""
    for field in ("body_mass", "body_inertia"):
        nominal = robots.physics.field(field)[bodies]  # (N, B, ...)
        own = nominal * factor.view(*factor.shape, *[1] * (nominal.ndim - 1))
        robots.physics.set_field(field, worlds, bodies.flatten(), own.flatten(1, 2))


def _scale_joints(robots: RobotGroup, field: str, worlds: Tensor, generator: torch.Generator, scale: Range) -> None:
    joints = torch.as_tensor(robots.group.joint_qvel).flatten()
    factor = _uniform((len(worlds), len(joints)), scale, generator, 0.0)
    robots.physics.set_field(field, worlds, joints, robots.physics.field(field)[joints] * factor)


def _joint_channels(robots: RobotGroup) -> Tensor:
    """Actuators of all robots that position a joint, (N x ...,)."""
    index = robots.group
    driven = [channel for channel, joint in enumerate(index.robot.joint_of_channel) if joint >= 0]
    return torch.as_tensor(index.ctrl_index[:, driven]).flatten()
