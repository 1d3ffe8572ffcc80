"""stand-h1: as stand, by a Unitree H1, whose ankles do not roll and are weak: they give out before its toes do."""

from hardware import load_robot
from sim.tasks.stand import Stand, stand_task

H1 = Stand(
    robot=load_robot("h1"),
    # Drives are soft, and carry it by targets ahead of its joints
    reach={"hip_pitch": 0.8, "hip_roll": 0.5, "hip_yaw": 0.35, "knee": 1.2, "ankle": 0.9, "torso": 0.2},
    fallen_m=0.65,
    standing_m=0.85,
    feet_apart_m=0.2,
    push_m_s=(0.2, 0.4),  # 12 to 24 N s
)
STAND_H1 = stand_task("stand-h1", "a Unitree H1 stays on its feet under pushes", H1)
