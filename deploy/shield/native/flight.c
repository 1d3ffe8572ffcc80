/* One multirotor's filter but for the program that is solved in it: `drone.filter`, `drone.apart`, `drone.limits`. */

#include "flight.h"

static void rotation_matrix(const double *q, double *rot)
{
    double w = q[0], x = q[1], y = q[2], z = q[3], ww = w * w, xx = x * x, yy = y * y, zz = z * z;
    double x2 = 2.0 * x, y2 = 2.0 * y, z2 = 2.0 * z;
    double xy = x * y2, xz = x * z2, yz = y * z2, wx = w * x2, wy = w * y2, wz = w * z2;
    double made[9] = {ww + xx - yy - zz, xy - wz, xz + wy, xy + wz, ww - xx + yy - zz,
                      yz - wx,           xz - wy, yz + wx, ww - xx - yy + zz};
    memcpy(rot, made, sizeof made);
}

static void rotated(const double *rot, const double *vec, double *into)
{
    for (int i = 0; i < 3; i++)
        into[i] = dot(rot + 3 * i, vec);
}

static void rotated_back(const double *rot, const double *vec, double *into)
{
    double x = vec[0], y = vec[1], z = vec[2];
    for (int i = 0; i < 3; i++)
        into[i] = rot[i] * x + rot[3 + i] * y + rot[6 + i] * z;
}

static void turn_quat(const double *turn, double *quat)
{
    double half = 0.5 * sqrt(dot(turn, turn) + 1e-18), gain = 0.5 * sin(half) / half;
    quat[0] = cos(half);
    for (int i = 0; i < 3; i++)
        quat[1 + i] = gain * turn[i];
}

static void predicted_turn(const struct flight *n, const double *rate, const double *command, double age, double *turn)
{
    double kept = n->lookahead - n->authority + age;
    for (int i = 0; i < 3; i++)
        turn[i] = rate[i] * kept + command[i] * n->authority;
}

/* The acceleration that thrust and rates lead to: `_axis_ahead` and `acceleration_of`. */
static void acceleration(const struct flight *n, const double *rot, const double *rate, double age,
                         const double *request, double *accel)
{
    double turn[3], q[4], lift = request[0] / n->mass;
    predicted_turn(n, rate, request + 1, age, turn);
    turn_quat(turn, q);
    double axis[3] = {2.0 * (q[1] * q[3] + q[0] * q[2]), 2.0 * (q[2] * q[3] - q[0] * q[1]),
                      q[0] * q[0] - q[1] * q[1] - q[2] * q[2] + q[3] * q[3]};
    rotated(rot, axis, accel);
    for (int i = 0; i < 3; i++)
        accel[i] *= lift;
    accel[2] -= n->gravity;
}

static void predict_state(const struct flight *n, const double *rot, const double *at, const double *lin_vel,
                          const double *rate, double age, double *pos, double *vel)
{
    double ahead = age + n->latency, gain = ahead * n->gravity / larger(rot[8], 0.5), swing = n->swings_on * ahead;
    double to_x = swing * rate[1], to_y = -swing * rate[0];
    rotated(rot, lin_vel, vel);
    for (int i = 0; i < 2; i++) {
        double axis = rot[2 + 3 * i], swings = rot[3 * i] * to_x + rot[3 * i + 1] * to_y;
        pos[i] = at[i] + (vel[i] + 0.5 * ((axis + swings / 3.0) * gain)) * ahead;
        vel[i] += (axis + swings / 2.0) * gain;
    }
    pos[2] = at[2] + vel[2] * ahead;
}

/* As `_flyable`. */
static void shorten(double *rates, double most)
{
    double share = smaller(most / sqrt(rates[0] * rates[0] + rates[1] * rates[1] + 1e-12), 1.0);
    rates[0] *= share;
    rates[1] *= share;
}

static void make_flyable(const struct flight *n, double *request, double free)
{
    double thrust = n->even != 0.0 ? smaller(request[0], n->max_thrust) : request[0];
    double signal = (pow(within(thrust / n->full, 0.0, 1.0), n->per_exponent) - n->offset) / (1.0 - n->offset);
    shorten(request + 1, smaller(larger(1.0 - signal, 0.0) / n->signal,
                                 n->even != 0.0 ? n->kept_rate : n->calm_rate + free * (n->kept_rate - n->calm_rate)));
    request[0] = smaller(request[0], n->max_thrust);
}

/* As `drone.distance.least_margin`, which subtracts positions as they come. */
static double least_margin(const struct flight *n, const struct peers *p, const double *at, char kind)
{
    double least = INFINITY;
    for (Py_ssize_t k = 0; k < p->count; k++) {
        double diff[3];
        for (int i = 0; i < 3; i++)
            diff[i] = kind == 'f' && p->kind == 'f' ? (double)((float)at[i] - (float)p->pos[k][i]) : at[i] - p->pos[k][i];
        if (p->valid[k] != 0.0)
            least = smaller(least, diff[0] * diff[0] + diff[1] * diff[1] + diff[2] * (diff[2] * n->flat));
    }
    return sqrt(least + n->never_zero) / n->separation - 1.0;
}

/* flight_request(numbers, base_pos, base_quat, base_lin_vel, base_ang_vel, age, peers' pos, lin_vel, age, valid, shares,
   separation, target, rows, bound, clamped, found): fills rows (P + 17, 3), bound (P + 17), the clamped target (4,)
   float32, and found (14,): the acceleration that is asked for, the one to aim at, the velocity ahead, the request that
   can be flown, and the margin. Whether it is allowed as it is; the aim and the request are written where it is not. */
PyObject *flight_request(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    struct flight n;
    struct peers p;
    double at[3], quat[4], lin_vel[3], rate[3], age, target[4], rot[9], pos[3], vel[3], request[4], excess, most, *out;
    Py_buffer views[4];
    void *lent[4] = {NULL, NULL, NULL, NULL};
    PyObject *answer = Py_None;
    char kind;
    (void)self;
    Py_ssize_t count = given == 17 ? PyObject_Size(args[9]) : -1;
    const Py_ssize_t sizes[4] = {3 * (count + PLANES), count + PLANES, 4, 14};
    if (count < 0 || count > MOST_PEERS)
        goto out;
    for (int i = 0; i < 4; i++)
        if (!(lent[i] = lend(args[13 + i], i == 2 ? "f" : "d", sizes[i], &views[i])))
            goto out;
    kind = take(args[1], "df", at, 3);
    if (!kind || !take(args[0], "d", (double *)&n, NUMBERS) || !take(args[2], "df", quat, 4) ||
        !take(args[3], "df", lin_vel, 3) || !take(args[4], "df", rate, 3) || !take(args[5], "df", &age, 1) ||
        !take_peers(args + 6, count, &n, &p) || !take(args[12], "f", target, 4))
        goto out;
    double *rows = lent[0], *bound = lent[1];
    float *clamped = lent[2];
    rotation_matrix(quat, rot);
    predict_state(&n, rot, at, lin_vel, rate, age, pos, vel);
    if (!all_finite(target, 4) || !all_finite(rot, 9) || !all_finite(pos, 3) || !all_finite(vel, 3) ||
        !all_finite(rate, 3) || !write_rows(&n, &p, pos, vel, rows, bound))
        goto out;
    for (int i = 0; i < 4; i++) {
        request[i] = within(target[i], n.low[i], n.high[i]);
        clamped[i] = (float)request[i];
    }
    out = lent[3];
    acceleration(&n, rot, rate, age, request, out);
    memcpy(out + 6, vel, sizeof vel);
    out[13] = least_margin(&n, &p, at, kind);
    most = -INFINITY;
    double nearest = INFINITY, right[3] = {0.0, 0.0, 0.0};
    for (Py_ssize_t k = 0; k < count + PLANES; k++) {
        if (k == count + PLANES - CONE && most <= -n.clear) /* nothing is near: it may climb as fast as it likes */
            bound[k + CLIMB] = n.no_limit;
        most = larger(most, excess = dot(rows + 3 * k, out) - bound[k]);
        nearest = k < count ? smaller(nearest, bound[k]) : nearest;
        for (int i = 0; i < 3 && k < count; i++) /* as `tie_break` */
            right[i] += n.tie_break * within(excess, 0.0, 1.0) * rows[3 * k + i];
    }
    answer = most <= n.row_tol ? Py_True : Py_False;
    if (answer == Py_False) {
        double free = smaller(bound[count + CEILING] / n.max_climb, bound[count + FLOOR] / n.max_descent);
        make_flyable(&n, request, nearest < n.clear ? 1.0 : within(free, 0.0, 1.0)); /* as `free_height` */
        acceleration(&n, rot, rate, age, request, out + 3);
        out[3] += right[1];
        out[4] -= right[0];
        memcpy(out + 9, request, sizeof request);
    }
    if (!all_finite(out, answer == Py_False ? 13 : 3))
        answer = Py_None;
out:
    for (int i = 0; i < 4; i++)
        if (lent[i])
            PyBuffer_Release(&views[i]);
    PyErr_Clear();
    Py_INCREF(answer);
    return answer;
}

/* flight_command(numbers, base_quat, base_ang_vel, age, request, accel, sent): fills sent (4,) float32 with the request,
   changed so that accel results, as `drone.filter._command` does; whether it could. */
PyObject *flight_command(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    struct flight n;
    double quat[4], rate[3], age, request[4], accel[3], rot[9], turn[3], turned[4], matrix[9], lift[3], rates[3], done[3];
    Py_buffer view;
    (void)self;
    if (given != 7 || !take(args[0], "d", (double *)&n, NUMBERS) || !take(args[1], "df", quat, 4) ||
        !take(args[2], "df", rate, 3) || !take(args[3], "df", &age, 1) || !take(args[4], "d", request, 4) ||
        !take(args[5], "d", accel, 3) || !all_finite(quat, 4) || !all_finite(rate, 3) || !all_finite(&age, 1) ||
        !all_finite(request, 4) || !all_finite(accel, 3))
        Py_RETURN_NONE;
    float *sent = lend(args[6], "f", 4, &view);
    if (!sent)
        Py_RETURN_NONE;
    double level[3] = {request[1], request[2], 0.0 * request[3]}, wanted[3] = {accel[0], accel[1], 0.0};
    wanted[2] = larger(accel[2] + n.gravity, n.least_lift);
    rotation_matrix(quat, rot);
    predicted_turn(&n, rate, level, age, turn);
    turn_quat(turn, turned);
    rotation_matrix(turned, matrix);
    rotated_back(rot, wanted, lift);
    rotated_back(matrix, lift, wanted);
    double side = sqrt(wanted[0] * wanted[0] + wanted[1] * wanted[1] + 1e-18), gain = atan2(side, wanted[2]) / side;
    double missing[3] = {-wanted[1] * gain, wanted[0] * gain, 0.0};
    for (int i = 0; i < 3; i++)
        rates[i] = level[i] + missing[i] / n.authority;
    shorten(rates, rot[8] > n.upright ? n.max_rate : n.overturned);
    for (int i = 0; i < 3; i++) {
        rates[i] = within(rates[i], n.low[1 + i], n.high[1 + i]);
        sent[1 + i] = (float)rates[i];
        done[i] = n.authority * (rates[i] - level[i]);
    }
    turn_quat(done, turned);
    rotation_matrix(turned, matrix);
    rotated_back(matrix, wanted, lift);
    sent[0] = (float)within(n.mass * lift[2], n.low[0], n.high[0]);
    PyBuffer_Release(&view);
    Py_RETURN_TRUE;
}
