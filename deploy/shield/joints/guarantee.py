"""What the shield of a robot with joints promises, in numbers that follow from its parameters and what is assumed."""

from math import degrees

from deploy.shield.guarantee import Guarantee, Lines
from deploy.shield.joints.bounds import BOUNDS, JointBounds
from deploy.shield.joints.guards import HEIGHT_ERROR_M, TILT_ERROR_RAD
from deploy.shield.joints.limits import joint_limits, reaction_s
from deploy.shield.joints.pace import EFFORT_STEP
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.joints.standby import Standby
from deploy.shield.joints.way import BODY_M, SETS_OUT_M, STOP_M, STOP_S
from hardware.spec import RobotSpec

OVERSPEED = 1.05  # times its speed limit, which no joint of an arm exceeded


def joint_guarantee(params: JointShieldParams, spec: RobotSpec, bounds: JointBounds = BOUNDS) -> Guarantee:
    """The tables of an arm, or of a robot on legs."""
    if spec.fixed_base:
        return Guarantee(_arm_holds(params), _arm_assumed(spec, bounds), _arm_margins(params, spec), ARM_OUTSIDE)
    standby = Standby.load(spec) if spec.fallback_policy else None
    left = LEGS_LEFT_AT_HOME if standby is None else LEGS_LEFT_WALKING if standby.walks else LEGS_LEFT_STANDING
    return Guarantee(_legs_hold(params, spec, standby), LEGS_ASSUMED, _legs_margins(params), (*left, *LEGS_OUTSIDE))


ARM_OUTSIDE: Lines = (
    ("things, other arms and people that its shield is not given", "not kept off"),
    ("a policy that is held back before something", "stays on its path: it does not slide along it"),
    ("what a hand holds, and fingers on what they touch", "not kept off; fingers meet it slowly"),
    (
        "a payload beyond that",
        "the shield holds the arm once it rests, where it weighs 1.2 times as much and 0.2 kg more; a Panda has no "
        "torque left to brake 3 kg in its hand, and goes into things by up to 20 cm",
    ),
    (
        "a payload that is taken where the tool is straight above the arm",
        "is not weighed: a Panda with 2.2 kg goes 3 cm into a table. One that was weighed may read 35 % too much, and "
        "is held then",
    ),
    (
        "joints of a Panda that carries its whole payload",
        "are thrown by the others: in one of 12 searches of rhythms the second went onto its stop, less than 1 mrad "
        "beyond its range; open",
    ),
    ("a joint that moves by itself against its stop", "crosses it at 50 to 80 % of its speed limit"),
    (
        "effort of a stiff servo whose joint is blocked",
        "up to 9 times its limit is asked for, of an FR3's wrist 19 times; the drive cuts that off",
    ),
    ("a gripper's finger", "its stops, its effort, and the speed of its target only: it works by being stopped"),
    ("a person's emergency stop", "brakes and holds; it is never limp"),
)
LEGS_ASSUMED: Lines = (
    ("ground", "level, and it stands or goes slowly"),
    (
        "the base's attitude, rates and height",
        "measured, each within the age at which the shield takes over; tilt, now and to come, to "
        f"{degrees(TILT_ERROR_RAD):.1f} degrees, height to {100 * HEIGHT_ERROR_M:g} cm: it acts that much earlier",
    ),
)
OWN_BODY = ("drones, and the robot's own body", "not looked at; drones keep off it")
WALKS_ON = "a policy that ends while the robot walks"
LEGS_LEFT_WALKING: Lines = (
    (
        WALKS_ON,
        "the robot's own policy goes on in the same phase of the gait, slows down and stands: up to 1 m/s ahead "
        "98 % or more stay on their feet",
    ),
    OWN_BODY,
)
LEGS_LEFT_STANDING: Lines = (
    (
        WALKS_ON,
        "the robot's own policy steps and stands, but never learned to slow down: it may fall. Of H1s that stood and "
        "were pushed, before and after, 241 of 242 stayed on their feet",
    ),
    OWN_BODY,
)
LEGS_LEFT_AT_HOME: Lines = (
    (WALKS_ON, "the legs are brought to the home pose: it may fall"),
    ("other robots, and the robot's own body", "not looked at; other shields keep off its body"),
)
LEGS_OUTSIDE: Lines = (
    ("falling", "not prevented: it is foreseen, and damped"),
    (
        "a state that stays away",
        "a G1 falls after 1.4 to 1.7 s, for no pose holds it up, and is damped once its state is there again",
    ),
    (
        "limbs that throw each other about in the air",
        "short-ranged joints reach their stops; light ones run 2.2 times their limit",
    ),
    (
        "a measurement that is taken for none",
        "counts for nothing: in that period up to 2.1 times a joint's effort was asked for, which the drive cuts off, "
        "and a fall is damped up to 0.1 s later",
    ),
    ("a person's emergency stop", "damps at once: it sinks down"),
)


def _arm_holds(params: JointShieldParams) -> Lines:
    return (
        ("every turning joint", "stays inside its range"),
        ("its speed", f"{100 * OVERSPEED:g} % of its limit or less"),
        ("what is asked of its target", f"moves no faster than {100 * params.target_speed_share:g} % of that limit"),
        (
            "links, without fingers",
            f"rest {1e3 * params.link_margin_m:g} mm before each other, the floor and obstacles that it is given; "
            "measured with all bounds at once: never touching",
        ),
        (
            "a drone of its team that does not land on what it holds",
            "links rest before it as before an obstacle that comes nearer as fast as it flies, off its middle by the "
            "distance from which on its own shield makes way",
        ),
        ("fingers", f"meet the floor and obstacles at {params.touch_speed:g} m/s or less"),
        (
            "a person who is tracked, at p",
            f"the arm rests, its links below 0.15 m/s, before {params.person_speed:g} m/s bring p within "
            f"{params.person_radius_m + params.person_reach_m + params.person_error_m:g} m of a link, level "
            "(ISO/TS 15066, ISO 13855)",
        ),
        _trips(params, "the shield brakes the arm on its path, and holds it"),
    )


def _arm_assumed(spec: RobotSpec, bounds: JointBounds) -> Lines:
    carried = (
        f"{spec.payload_kg:g} kg or less, known once the arm has rested with it for 0.3 s"
        if spec.payload_kg
        else "nothing"
    )
    return (
        ("control rate", "50 Hz"),
        ("error of position; of velocity", f"{1e3 * bounds.pos:g} mrad; {1e3 * bounds.vel:g} mrad/s, one sigma"),
        ("age of the state", f"{1e3 * bounds.age_s:g} ms or less"),
        ("from the command to the drive", f"{1e3 * bounds.delay_s:g} ms or less"),
        ("gravity", "is compensated by the arm's own controller"),
        ("payload at the tool", carried),
        ("what the arm touches", "nothing"),
    )


def _arm_margins(params: JointShieldParams, spec: RobotSpec) -> Lines:
    limits, react_s = joint_limits(params, spec), reaction_s(params)
    lines = []
    for index, channel in enumerate(spec.channels):
        if channel.unit != "rad":
            continue
        speed = params.speed_share * limits.max_velocity[index]
        way = react_s * speed + 0.5 * speed**2 / limits.brake[index]
        clear = params.range_margin * (params.position_high[index] - params.position_low[index])
        fast = f"{degrees(speed):.0f} degrees/s at most, and stops within {degrees(way):.0f} degrees"
        lines.append((channel.name, f"targets {degrees(clear):.1f} degrees clear of its stops; {fast}"))
    return tuple(lines)


def _legs_hold(params: JointShieldParams, spec: RobotSpec, standby: Standby | None) -> Lines:
    tilt = degrees(params.max_tilt_rad)
    stands = "by a policy of its own" if standby else f"in its home pose, within {params.stand_s:g} s"
    return (
        ("every target", f"{100 * params.range_margin:g} % of its joint's range clear of either stop"),
        (
            "what a target calls for from a joint at rest",
            f"{100 * params.effort_share:g} % of its drive's effort or less",
        ),
        (
            "what is asked of its target",
            f"moves no faster than {100 * params.target_speed_share:g} % of that joint's speed limit, or in a control "
            f"period by what changes its drive's effort by {100 * EFFORT_STEP:g} %, whichever is more",
        ),
        ("all drives together", f"{params.max_power_w:.0f} W of mechanical power or less, in the middle of a period"),
        (
            f"tilt beyond {tilt:.0f} degrees now or in {params.fall_horizon_s:g} s, twice in a row",
            "the robot is damped at once, never limp",
        ),
        (f"base below {100 * params.min_height_share:g} % of its height at home", "the robot is damped"),
        (f"a request that cannot be used, for {1e3 * params.act_s:.0f} ms", f"the shield stands it {stands}"),
        (
            f"a state that cannot be used, for {1e3 * params.act_s:.0f} ms",
            "its last targets stay: 0.5 s of that does not fell a G1 that stands, nor 1 s an H1; 0.3 s within a second "
            "after a G1 is armed or started",
        ),
        *_before_its_policy(standby),
        (
            "an obstacle, another robot that does not fly, or a person who stands, that the shield is given",
            _stops(walks=standby.walks) if standby else "not looked at",
        ),
    )


def _before_its_policy(standby: Standby | None) -> Lines:
    if standby is None:
        return ()
    first = (
        "a policy of its own stands it: a push of 0.3 m/s does not fell it with its drives at 0.9 of their gains or "
        "more; one whose legs are more than 0.35 rad from home hangs, and moves there at 0.5 rad/s first"
    )
    return (("armed, before the first good request of a policy", first),)


def _stops(walks: bool) -> str:
    """How a robot on legs comes to rest before what is in its way, by a fallback policy that walks or only stands."""
    before = (
        f"a robot that walks towards it at a speed v is stood {BODY_M + STOP_M:g} m + {STOP_S:g} s v before it; one "
        f"that stands goes on under its policy, and is not armed with its base less than {BODY_M:g} m before it"
    )
    if not walks:
        return f"{before}. How far it goes on then is not known: no policy of it walks, the numbers are a G1's"
    return (
        f"{before}. A G1 that is not pushed keeps its base {BODY_M:g} m clear. One that begins to walk towards it from "
        f"less than {BODY_M + STOP_M + SETS_OUT_M:g} m is stopped at its first request, 0.61 m before a wall at 0.7 m, "
        "if its policy stands and starts as the fallback policy does; one that begins gently came to 0.19 m"
    )


def _legs_margins(params: JointShieldParams) -> Lines:
    clear = [
        params.range_margin * (high - low) for low, high in zip(params.position_low, params.position_high, strict=True)
    ]
    return (
        ("room between a target and a stop", f"{degrees(min(clear)):.1f} to {degrees(max(clear)):.1f} degrees"),
        ("effort left for what pulls at a joint", f"{100 * (1 - params.effort_share):.0f} %"),
        ("speed asked for", f"{100 * params.speed_share:g} % of a joint's limit or less"),
    )


def _trips(params: JointShieldParams, then: str) -> tuple[str, str]:
    return "a request or a state that cannot be used", f"after {1e3 * params.act_s:.0f} ms {then}"
