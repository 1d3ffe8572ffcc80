/* Where an arm's links are, how far apart, and how far over the floor: `hardware.links.Links.place`,
   `joints.capsules.between` and `joints.links`. */

#include "native.h"

enum { MOST_LINKS = 32, MOST_JOINTS = 64, MOST_CAPSULES = 64, MOST_ROWS = 512, MOST_POSES = 64 };

/* A hinge: the link before it (0 for the base), its channel, and the first three rows of what 1, sine and cosine of its
   angle are multiplied by. */
struct hinge {
    double parent, channel, parts[3][3][4];
};

struct capsule {
    double link, end[3], way[3];
};

struct pair {
    double first, second, one, two; /* the latter m^2, as of `Pairs` */
};

static void turn(const struct hinge *h, double angle, double before[3][4], double pose[3][4])
{
    double step[3][4], s = sin(angle), c = sin(angle + 0.5 * 3.14159265358979323846);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            step[i][k] = h->parts[0][i][k] + s * h->parts[1][i][k] + c * h->parts[2][i][k];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            pose[i][k] = before[i][0] * step[0][k] + before[i][1] * step[1][k] + before[i][2] * step[2][k] +
                         (k < 3 ? 0.0 : before[i][3]);
}

struct sphere {
    double capsule, share, radius;
};

/* place_links(hinges, capsules, poses, lines): fills lines (3, 2 C, N) for poses (N, U); True where it could. */
PyObject *place_links(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    struct hinge hinges[MOST_LINKS];
    struct capsule capsules[MOST_CAPSULES];
    double angles[MOST_POSES][MOST_JOINTS], pose[MOST_LINKS + 1][3][4] = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
    double *lines = NULL;
    Py_buffer view;
    int done = 0;
    (void)self;
    Py_ssize_t links = given == 4 ? PyObject_Size(args[0]) : -1, count = given == 4 ? PyObject_Size(args[1]) : -1;
    Py_ssize_t poses = given == 4 ? PyObject_Size(args[2]) : -1, joints;
    if (links < 1 || links > MOST_LINKS || count < 1 || count > MOST_CAPSULES || poses < 1 || poses > MOST_POSES)
        goto out;
    joints = entries(args[2]) / poses;
    if (joints < 1 || joints > MOST_JOINTS || !take(args[2], "d", angles[0], poses * joints) ||
        !take(args[0], "d", (double *)hinges, links * (Py_ssize_t)(sizeof(struct hinge) / sizeof(double))) ||
        !take(args[1], "d", (double *)capsules, count * (Py_ssize_t)(sizeof(struct capsule) / sizeof(double))) ||
        !(lines = lend(args[3], "d", 6 * count * poses, &view)))
        goto out;
    for (Py_ssize_t l = 0; l < links; l++)
        if (!(hinges[l].parent >= 0.0 && hinges[l].parent <= (double)l && hinges[l].channel >= 0.0 &&
              hinges[l].channel < (double)joints))
            goto out;
    for (Py_ssize_t c = 0; c < count; c++)
        if (!(capsules[c].link >= 0.0 && capsules[c].link <= (double)links))
            goto out;
    for (Py_ssize_t n = 0; n < poses; n++) {
        const double *at = angles[0] + n * joints;
        for (Py_ssize_t l = 0; l < links; l++)
            turn(&hinges[l], at[(int)hinges[l].channel], pose[(int)hinges[l].parent], pose[l + 1]);
        for (Py_ssize_t c = 0; c < count; c++) {
            double(*on)[4] = pose[(int)capsules[c].link];
            for (int i = 0; i < 3; i++) {
                lines[(2 * count * i + c) * poses + n] = dot(on[i], capsules[c].end) + on[i][3];
                lines[(2 * count * i + count + c) * poses + n] = dot(on[i], capsules[c].way);
            }
        }
    }
    done = all_finite(lines, 6 * count * poses);
out:
    if (lines)
        PyBuffer_Release(&view);
    PyErr_Clear();
    return Py_NewRef(done ? Py_True : Py_None);
}

/* One row of what is between lines (3, 2 C, N), or between them and a plane, into `filled` (N,). 0 where the row names a
   capsule that is not there. */
typedef int row_filler(const double *row, const double *numbers, const double *lines, Py_ssize_t capsules,
                       Py_ssize_t poses, double *filled);

/* args: lines (3, 2 C, N), rows (K, width), `count` numbers that are the same for all, and what is filled (K, N). */
static PyObject *fill_rows(PyObject *const *args, Py_ssize_t given, row_filler *fill, Py_ssize_t width,
                           Py_ssize_t count)
{
    double rows[4 * MOST_ROWS], numbers[4], *lines = NULL, *filled = NULL;
    Py_buffer read, written;
    int done = 0;
    Py_ssize_t size = given == 4 ? PyObject_Size(args[1]) : -1, all, poses, capsules;
    if (size < 1 || size > MOST_ROWS || (all = entries(args[0])) < 6 || (poses = entries(args[3]) / size) < 1)
        goto out;
    capsules = all / (6 * poses);
    if (all != 6 * capsules * poses || !take(args[2], "d", numbers, count) || !all_finite(numbers, count) ||
        !take(args[1], "d", rows, size * width) || !(lines = lend(args[0], "d", all, &read)) ||
        !(filled = lend(args[3], "d", size * poses, &written)) || !all_finite(lines, all))
        goto out;
    for (Py_ssize_t k = 0; k < size; k++)
        if (!fill(rows + k * width, numbers, lines, capsules, poses, filled + k * poses))
            goto out;
    done = all_finite(filled, size * poses);
out:
    if (lines)
        PyBuffer_Release(&read);
    if (filled)
        PyBuffer_Release(&written);
    PyErr_Clear();
    return Py_NewRef(done ? Py_True : Py_None);
}

static int fill_gaps(const double *row, const double *small, const double *lines, Py_ssize_t capsules, Py_ssize_t poses,
                     double *filled)
{
    const struct pair *p = (const struct pair *)row;
    if (!(p->first >= 0.0 && p->first < (double)capsules && p->second >= 0.0 && p->second < (double)capsules))
        return 0;
    for (Py_ssize_t n = 0; n < poses; n++) {
        double axis[3], other[3], way[3];
        for (int i = 0; i < 3; i++) {
            const double *ends = lines + 2 * capsules * poses * i + n, *ways = ends + capsules * poses;
            way[i] = ends[(int)p->first * poses] - ends[(int)p->second * poses];
            axis[i] = ways[(int)p->first * poses];
            other[i] = ways[(int)p->second * poses];
        }
        double across = dot(axis, other), along = dot(axis, way), behind = dot(other, way);
        double share = (across * behind - along * p->two) / larger(p->one * p->two - across * across, small[0]);
        double there = within((across * within(share, 0.0, 1.0) + behind) / p->two, 0.0, 1.0);
        share = within((across * there - along) / p->one, 0.0, 1.0);
        for (int i = 0; i < 3; i++)
            way[i] = way[i] + share * axis[i] - there * other[i];
        filled[n] = sqrt(dot(way, way) + small[1]);
    }
    return 1;
}

static int fill_heights(const double *row, const double *up, const double *lines, Py_ssize_t capsules, Py_ssize_t poses,
                        double *filled)
{
    const struct sphere *s = (const struct sphere *)row;
    if (!(s->capsule >= 0.0 && s->capsule < (double)capsules))
        return 0;
    const double *end = lines + (int)s->capsule * poses, *way = end + capsules * poses;
    Py_ssize_t axis = 2 * capsules * poses;
    for (Py_ssize_t n = 0; n < poses; n++) {
        double height = up[0] * end[n] + up[1] * end[axis + n] + up[2] * end[2 * axis + n];
        double along = up[0] * way[n] + up[1] * way[axis + n] + up[2] * way[2 * axis + n];
        filled[n] = height + s->share * along + (up[3] - s->radius);
    }
    return 1;
}

/* link_gaps(lines, pairs, small, apart): fills apart (S, N) m for lines (3, 2 C, N); small are the two numbers that
   nothing is divided by less than. True where it could. */
PyObject *link_gaps(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    (void)self;
    return fill_rows(args, given, fill_gaps, sizeof(struct pair) / sizeof(double), 2);
}

/* sphere_heights(lines, spheres, up, above): fills above (K, N) m, how far spheres are over a plane, for lines
   (3, 2 C, N) and up (4,): the plane's normal in the base, and how far that is over the plane. True where it could. */
PyObject *sphere_heights(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    (void)self;
    return fill_rows(args, given, fill_heights, sizeof(struct sphere) / sizeof(double), 4);
}
