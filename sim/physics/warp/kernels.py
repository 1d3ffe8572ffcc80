"""What is computed on the device and is not in MuJoCo Warp."""

# mypy: ignore-errors
# Kernels are a language of their own that only looks like Python.

import warp as wp


@wp.kernel(enable_backward=False)
def keep(qpos: wp.array2d[float], qvel: wp.array2d[float], row: wp.array2d[float]):
    """Write [qpos, qvel] of every world to `row` (W, nq + nv); a copy into a part of it cannot be recorded."""
    world, column = wp.tid()
    nq = qpos.shape[1]
    if column < nq:
        row[world, column] = qpos[world, column]
    else:
        row[world, column] = qvel[world, column - nq]


@wp.kernel(enable_backward=False)
def add_gyroscopic(
    timestep: wp.array[float],
    bodies: wp.array[int],
    body_dofadr: wp.array[int],
    xpos: wp.array2d[wp.vec3],
    xmat: wp.array2d[wp.mat33],
    subtree_com: wp.array2d[wp.vec3],
    crb: wp.array3d[float],
    qvel: wp.array2d[float],
    qacc: wp.array2d[float],
    force: wp.array2d[float],
):
    """Forces (W, nv) of a step's end instead of its beginning: gyroscopic ones of `bodies`, rigid and free.

    They are linear in the change of angular velocity h x `qacc`, and every product of it with velocity counts.
    """
    world, each = wp.tid()
    body = bodies[each]
    dof = body_dofadr[body]
    turn = xmat[world, body]
    vel = turn @ wp.vec3(qvel[world, dof + 3], qvel[world, dof + 4], qvel[world, dof + 5])
    acc = turn @ wp.vec3(qacc[world, dof + 3], qacc[world, dof + 4], qacc[world, dof + 5])
    # Inertia about the centre of mass, world axes: xx yy zz xy xz yz, then mass times the centre, and mass.
    xx, yy, zz = crb[world, body, 0], crb[world, body, 1], crb[world, body, 2]
    xy, xz, yz = crb[world, body, 3], crb[world, body, 4], crb[world, body, 5]
    inertia = wp.mat33(xx, xy, xz, xy, yy, yz, xz, yz, zz)
    lever = subtree_com[world, body] - xpos[world, body]
    pull = crb[world, body, 9] * (wp.cross(acc, wp.cross(vel, lever)) + wp.cross(vel, wp.cross(acc, lever)))
    spin = wp.cross(acc, inertia @ vel) + wp.cross(vel, inertia @ acc) + wp.cross(lever, pull)
    spin = wp.transpose(turn) @ spin  # the rotation of a free joint is in its body's frame
    h = timestep[world % timestep.shape[0]]
    for axis in range(3):
        force[world, dof + axis] -= h * pull[axis]
        force[world, dof + 3 + axis] -= h * spin[axis]
