"""An arm behind its shield when its measurements are old and its commands late."""

import numpy as np
from places import ZOO

from deploy.shield import Context, filter_command, make_shield_params
from deploy.shield.types import NO_PEERS
from hardware import RobotState, load_robot
from policies.evaluation.evaluate import evaluate
from sim import randomisation
from sim.tasks import load_task
from sim.terms import EventTerm


def test_what_was_sent_before_leaves_room_for_the_speed_that_the_joint_has_when_the_next_target_arrives():
    """Measured at rest 20 ms ago, and sent on its way since; not with a payload, nor where the drive would stop."""
    spec = load_robot("fr3")
    home, wrist = np.array(spec.home), spec.channel_names.index("joint6")
    joint, ahead, load = spec.joints[wrist], home.copy(), np.zeros(len(home))
    ahead[wrist] += 1.0 * (joint.damping / joint.stiffness + 0.01)  # of a joint that runs at 1 rad/s
    load[wrist] = 0.3 * joint.max_effort

    still, none = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
    seen = RobotState(home, 0.0 * home, none, still, none, none, np.array(0.02))

    def intervention(share=0.8, **known) -> float:
        context = Context(seen, NO_PEERS, **known)
        _, info = filter_command(make_shield_params(spec, pickup_share=share), spec, context, np.float32(ahead))
        return info.intervention

    assert intervention(sent=ahead) == 0.0
    assert intervention() > 0.01 and intervention(sent=home) > 0.01
    assert intervention(sent=ahead, load=load) > 0.01 and intervention(share=0.0, sent=ahead) > 0.01


def test_an_arm_whose_state_and_commands_are_20_ms_late_each_reaches_behind_its_shield_as_without():
    task = load_task("reach-fr3")
    late = {
        "actuator_delay": EventTerm(randomisation.actuator_delay, {"range_s": (0.02, 0.02)}),
        "sensor_delay": EventTerm(randomisation.sensor_delay, {"range_s": (0.02, 0.02)}),
    }
    task = task.changed(randomisation={**task.group.randomisation, **late})
    behind = evaluate(ZOO / "reach-fr3.onnx", task, 24, shield=True)
    assert behind.success_rate > 0.85 and behind.intervention_rate < 0.15  # before: 0.59 and 0.93
