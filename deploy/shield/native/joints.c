/* The targets of one robot's joints, as `joints.filter` bounds them before it looks at an arm's links. */

#include "native.h"

enum { MOST_JOINTS = 64 };

/* As `joints.limits.Rows`, of one joint, in the order of `joints.compiled.FIELDS`; and whether it counts for the margin. */
struct joint {
    double box_high, box_low, low, stiffness, max_effort, fading, per_range, follow_rate, compliance, damping, effort;
    double pull, pickup, max_speed, least_speed, return_speed, brake_twice, brake_time, brake_time_squared;
    double free_gain, brake_gain, coast, yields, foreseen, turns;
};

enum { NUMBERS = sizeof(struct joint) / sizeof(double) };

/* What `joints.compiled._numbers` makes of the robot's parameters, in this order. */
struct servo {
    double per_reaction, latency, foresees, max_power, free_share, heavy, slowed, least_effort, least_brake, unforeseen;
};

/* As `joints.filter._loaded`, where `most` is the largest share of a drive's effort that a load takes. */
static void bend(const struct servo *n, struct joint *j, double load, double most)
{
    double taken = fabs(load) / j->max_effort;
    double left = larger(1.0 - taken, n->least_effort);
    double free = larger(1.0 - taken / n->free_share, 0.0) * larger(1.0 - n->heavy * most, 0.0);
    double brake = larger(free, n->least_brake);
    j->max_effort *= left;
    j->effort *= left;
    j->max_speed *= 1.0 - n->slowed * smaller(most, 1.0);
    j->brake_gain *= left;
    j->foreseen *= larger(1.0 - n->unforeseen * most, 0.0);
    j->brake_twice *= brake;
    j->brake_time *= brake;
    j->brake_time_squared *= brake * brake;
}

/* As `joints.filter._most_lead`. */
static double most_lead(const struct joint *j, double speed)
{
    return (j->effort + larger(j->pull * speed + j->pickup, 0.0) + j->damping * speed) * j->compliance;
}

/* As `joints.filter.allowed_speed`, up for k = 0 and down for k = 1. */
static double allowed_speed(const struct servo *n, const struct joint *j, double pos, int k)
{
    double gap = k ? pos - j->box_low : j->box_high - pos;
    double curve = sqrt(j->brake_time_squared + j->brake_twice * larger(gap, 0.0)) - j->brake_time;
    double back = larger(smaller(gap, 0.0) * n->per_reaction, j->return_speed);
    return larger(smaller(curve, j->max_speed) + back, j->least_speed);
}

/* As `joints.filter._bounded`, of one joint up to its power; `active` are its rows but that one, `count` apart. */
static double joint_target(const struct servo *n, const struct joint *j, double measured, double vel, double pos,
                           double age, double wanted, double braking, const double *allowed, const double *sent,
                           double *low, double *high, char *active, Py_ssize_t count)
{
    double then = 0.0, fast = 0.0, reach[2], push[2], lead[2], speed[2];
    if (sent) { /* as `_on_arrival` */
        double time = n->latency + age, off = measured - *sent, follows = vel + j->follow_rate * off;
        double left = exp(-j->follow_rate * time);
        then = *sent + left * (off + time * follows);
        fast = left * (vel - j->follow_rate * time * follows);
    }
    for (int k = 0; k < 2; k++) { /* as the first half of `_lead` */
        speed[k] = k ? -vel : vel;
        double excess = larger(speed[k] - larger(allowed[k], 0.0), 0.0);
        push[k] = larger(j->free_gain * (allowed[k] - speed[k] + excess) - j->brake_gain * excess, -j->effort);
    }
    for (int k = 0; k < 2; k++) {
        double own = speed[k] - larger(allowed[k], 0.0) > 0.0 ? push[k] : larger(push[k], -push[1 - k]);
        lead[k] = (own + j->damping * speed[k]) * j->compliance;
    }
    active[0] = active[count] = active[2 * count] = active[3 * count] = 0;
    for (int k = 0; k < 2; k++) {
        double side = k ? -1.0 : 1.0, most = most_lead(j, speed[k]);
        if (sent)
            most += j->foreseen * larger(most_lead(j, side * fast) + side * (then - pos) - most, 0.0);
        if (braking > 0.0) /* as `_yielding` */
            most -= braking * larger(most - larger(j->coast * speed[k] + j->yields, -lead[1 - k]), 0.0);
        reach[k] = smaller(lead[k], most);
        if (side * (wanted - pos) > reach[k]) /* effort, braking or speed holds it back */
            active[(lead[k] >= most ? 1 : allowed[k] < j->max_speed ? 2 : 3) * count] = 1;
    }
    *high = pos + reach[0];
    *low = pos - reach[1];
    double inner = within(wanted, *low, *high), held = within(inner, j->box_low, j->box_high);
    active[0] = inner != held;
    return held;
}

/* joint_targets(joints, numbers, joint_pos, joint_vel, age, target, load, sent, found, active): fills found (8, U) with
   pos, vel, low, high, asked, wanted, ahead, sent, and active (5, U) bool, as `joints.filter` has them before it looks
   at links. load and sent may be None. The margin. */
PyObject *joint_targets(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    struct joint joints[MOST_JOINTS];
    struct servo n;
    double measured[MOST_JOINTS], vel[MOST_JOINTS], target[MOST_JOINTS], load[MOST_JOINTS] = {0.0}, sent[MOST_JOINTS];
    double called[MOST_JOINTS], effort[MOST_JOINTS], where[MOST_JOINTS], allowed[MOST_JOINTS][2];
    double age, most = 0.0, braking = 0.0, power = 0.0, margin = INFINITY, *out = NULL;
    char *active = NULL;
    Py_buffer found, marks;
    int done = 0;
    (void)self;
    Py_ssize_t count = given == 10 ? PyObject_Size(args[2]) : -1;
    if (count < 1 || count > MOST_JOINTS || !(out = lend(args[8], "d", 8 * count, &found)) ||
        !(active = lend(args[9], "?", 5 * count, &marks)))
        goto out;
    int has_load = args[6] != Py_None, has_sent = args[7] != Py_None;
    if (!take(args[0], "d", (double *)joints, count * NUMBERS) ||
        !take(args[1], "d", (double *)&n, sizeof n / sizeof(double)) || !take(args[2], "df", measured, count) ||
        !take(args[3], "df", vel, count) || !take(args[4], "df", &age, 1) || !take(args[5], "df", target, count) ||
        (has_load && !take(args[6], "df", load, count)) || (has_sent && !take(args[7], "df", sent, count)) ||
        !all_finite(load, count) || (has_sent && !all_finite(sent, count)) || !all_finite(measured, count) ||
        !all_finite(vel, count) || !all_finite(&age, 1) || !all_finite(target, count))
        goto out;
    for (Py_ssize_t k = 0; k < count; k++)
        most = larger(most, fabs(load[k]) / joints[k].max_effort);
    for (Py_ssize_t k = 0; k < count; k++) {
        struct joint *j = &joints[k];
        where[k] = measured[k] + vel[k] * age;
        if (has_load)
            bend(&n, j, load[k], most);
        for (int i = 0; i < 2; i++) {
            allowed[k][i] = allowed_speed(&n, j, where[k], i);
            double excess = larger((i ? -vel[k] : vel[k]) - larger(allowed[k][i], 0.0), 0.0);
            braking = larger(braking, smaller(excess * j->brake_gain / j->effort, 1.0));
        }
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        struct joint *j = &joints[k];
        double pos = where[k], ahead = load[k] / j->stiffness, low, high;
        double wanted = target[k] - ahead, before = has_sent ? sent[k] - ahead : 0.0;
        double held = joint_target(&n, j, measured[k], vel[k], pos, age, wanted, braking, allowed[k],
                                   has_sent && n.foresees ? &before : NULL, &low, &high, active + k, count);
        called[k] = (held - pos) * j->stiffness - vel[k] * j->fading;
        effort[k] = within(called[k], -j->max_effort, j->max_effort);
        power += larger(effort[k] * vel[k], 0.0);
        double rest = (measured[k] - j->low) * j->per_range;
        if (j->turns != 0.0)
            margin = smaller(margin, smaller(rest, 1.0 - rest));
        double column[8] = {pos, vel[k], low, high, target[k], wanted, ahead, held};
        for (int i = 0; i < 8; i++)
            out[i * count + k] = column[i];
    }
    for (Py_ssize_t k = 0; k < count; k++) { /* as `_within_power` */
        double share = n.max_power / larger(power, n.max_power);
        active[4 * count + k] = share < 1.0 && effort[k] * vel[k] > 0.0;
        if (active[4 * count + k])
            out[7 * count + k] -= (called[k] - share * effort[k]) / joints[k].stiffness;
    }
    done = all_finite(out, 8 * count);
out:
    if (active)
        PyBuffer_Release(&marks);
    if (out)
        PyBuffer_Release(&found);
    PyErr_Clear();
    return done ? PyFloat_FromDouble(margin) : Py_NewRef(Py_None);
}
