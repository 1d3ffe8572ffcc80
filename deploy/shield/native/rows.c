/* The rows of one multirotor: `drone.apart` and `drone.limits`, for the state of `drone.ahead`. */

#include "flight.h"

static double braking_curve(double distance, double brake, double gain, double knee, double *slope)
{
    double root = sqrt(2.0 * brake * larger(distance - knee, knee));
    *slope = brake / root;
    return smaller(gain * distance, root);
}

static double used_up(const struct flight *n, double barrier, double duty)
{
    double lag = 1.0 / n->barrier, turn = n->turn / duty;
    return 2.0 * barrier / (lag + sqrt(lag * lag + 2.0 * larger(barrier, 0.0) / turn));
}

static void fence_bound(const struct flight *n, const double *pos, const double *vel, double *bound)
{
    for (int face = 0; face < FACES; face++) {
        double side = face < 3 ? 1.0 : -1.0, speed = side * vel[face % 3], slope;
        double distance = n->faces[face] - side * pos[face % 3];
        double allowed = braking_curve(distance, n->planned[face], n->gain, n->knee[face], &slope);
        bound[face] = larger(n->barrier * (allowed - speed) - slope * speed, n->least[face]);
    }
}

static double fence_push(const double *bound, int axis)
{
    return smaller(bound[axis], 0.0) - smaller(bound[axis + 3], 0.0);
}

/* As `peer_rows`, of one peer, predicted as `drone.ahead.predict_peers` does. */
static void peer_row(const struct flight *n, const double *pos, const double *vel, const double *fences,
                     const double *peer_pos, const double *peer_vel, double age, double shares, double separation,
                     double *row, double *bound)
{
    double there[3], diff[3], away[3], relative[3], together[3], other[FACES], slope;
    age = larger(smaller(age, n->age_cap), 0.0);
    for (int i = 0; i < 3; i++) {
        there[i] = peer_pos[i] + peer_vel[i] * (age + n->latency);
        diff[i] = pos[i] - there[i];
        away[i] = i < 2 ? diff[i] : diff[i] * n->flat;
        relative[i] = vel[i] - peer_vel[i];
    }
    double across = diff[0] * diff[0] + diff[1] * diff[1], up = diff[2] * diff[2];
    double distance = sqrt(across + up * n->flat + n->never_zero);
    double length = sqrt(across + up * n->flat_squared + n->never_zero);
    double opening = dot(away, relative) / distance;
    double doubt = larger(age - n->fresh, 0.0) / (n->age_cap - n->fresh);
    opening -= doubt * larger(-dot(away, peer_vel), 0.0) / distance;
    double duty = shares != 0.0 && age <= n->act ? 0.5 : 1.0, brake = n->brake / duty;
    double reach = (larger(separation, n->separation) + n->buffer) + n->half_peer_accel * age * age;
    double allowed = braking_curve(distance - reach, brake, n->gain, 0.5 * brake / (n->gain * n->gain), &slope);
    double barrier = opening + allowed;
    if (n->stops_alone != 0.0)
        barrier = smaller(barrier, dot(away, vel) / (duty * distance) + allowed);
    *bound = duty * (used_up(n, barrier, duty) + slope * opening) * distance;
    if (duty < 1.0) {
        fence_bound(n, there, peer_vel, other);
        for (int i = 0; i < 3; i++) {
            double own = fence_push(fences, i), its = fence_push(other, i);
            together[i] = larger(larger(own, its), 0.0) + smaller(smaller(own, its), 0.0);
        }
        *bound -= dot(away, together);
    }
    *bound /= length;
    for (int i = 0; i < 3; i++)
        row[i] = away[i] / -length;
}

int take_peers(PyObject *const *args, Py_ssize_t count, struct flight *n, struct peers *p)
{
    p->count = count;
    p->kind = take(args[0], "df", p->pos[0], 3 * count);
    if (!p->kind || !take(args[1], "df", p->vel[0], 3 * count) || !take(args[2], "df", p->age, count) ||
        !take(args[3], "?", p->valid, count))
        return 0;
    if (args[4] != Py_None)
        return take(args[4], "?", p->shares, count) && take(args[5], "d", p->separation, count);
    n->act = INFINITY; /* all share, however old their messages are */
    for (Py_ssize_t k = 0; k < count; k++) {
        p->shares[k] = 1.0;
        p->separation[k] = n->separation;
    }
    return 1;
}

int write_rows(const struct flight *n, const struct peers *p, const double *pos, const double *vel, double *row,
               double *bound)
{
    double fences[FACES], speed, *first_row = row, *first_bound = bound;
    fence_bound(n, pos, vel, fences);
    for (Py_ssize_t k = 0; k < p->count; k++, row += 3, bound++) {
        if (p->valid[k] != 0.0) {
            if (!all_finite(&p->age[k], 1) || !all_finite(&p->separation[k], 1))
                return 0;
            peer_row(n, pos, vel, fences, p->pos[k], p->vel[k], p->age[k], p->shares[k], p->separation[k], row, bound);
        } else {
            memset(row, 0, 3 * sizeof(double));
            *bound = n->no_limit;
        }
    }
    memcpy(row, n->planes, sizeof n->planes);
    memcpy(bound, fences, sizeof fences);
    speed = sqrt(dot(vel, vel) + n->never_zero);
    for (int i = 0; i < 3; i++)
        row[3 * FACES + i] = vel[i] / speed;
    bound[FACES] = larger(n->barrier * (n->max_speed - speed), -n->speed_brake);
    memcpy(bound + FACES + 1, n->cone, sizeof n->cone);
    return all_finite(first_row, 3 * (p->count + PLANES)) && all_finite(first_bound, p->count + PLANES);
}
