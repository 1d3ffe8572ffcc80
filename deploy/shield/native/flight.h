/* What both files about multirotors share. */

#include "native.h"

enum { MOST_PEERS = 64, FACES = 6, CONE = 10, PLANES = FACES + 1 + CONE, CLIMB = 8, CEILING = 2, FLOOR = 5 };

/* What `drone.compiled._numbers` makes of a robot and its parameters, in this order. */
struct flight {
    double latency, age_cap, fresh, act, separation, buffer, half_peer_accel, brake, gain, barrier, flat, flat_squared;
    double max_speed, speed_brake, no_limit, never_zero, gravity, mass, row_tol, clear, tie_break, swings_on, lookahead;
    double authority, max_rate, kept_rate, upright, overturned, max_thrust, even, full, offset, per_exponent, signal;
    double least_lift, turn, stops_alone, max_climb, max_descent, calm_rate, low[4], high[4];
    double faces[FACES], least[FACES], planned[FACES], knee[FACES], cone[CONE], planes[PLANES][3];
};
enum { NUMBERS = sizeof(struct flight) / sizeof(double) };

/* What is known of peers, and of what they do about their distance. */
struct peers {
    Py_ssize_t count;
    double pos[MOST_PEERS][3], vel[MOST_PEERS][3], age[MOST_PEERS], valid[MOST_PEERS], shares[MOST_PEERS];
    double separation[MOST_PEERS];
    char kind; /* of the positions */
};

/* Reads six arrays: pos, lin_vel, age, valid, shares and separation; the last two may be None. */
int take_peers(PyObject *const *args, Py_ssize_t count, struct flight *n, struct peers *p);

/* As `drone.constraints.rows_ahead` without people and obstacles; whether every number that counts is finite. */
int write_rows(const struct flight *n, const struct peers *p, const double *pos, const double *vel, double *row,
               double *bound);
