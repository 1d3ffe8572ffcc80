/* A few pure functions of one robot's shield, as NumPy calculates them and in the same order: `deploy.shield.native`.

   They answer None where they are not made for what they are given, or where a number is not finite: NumPy decides then.
   Nothing is kept from call to call, nothing is allocated, and no more is written than the arrays that are handed in. */

#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <string.h>

static inline double larger(double a, double b) { return a > b ? a : b; }
static inline double smaller(double a, double b) { return a < b ? a : b; }
static inline double within(double x, double low, double high) { return smaller(larger(x, low), high); }
static inline double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

int all_finite(const double *values, Py_ssize_t count);

/* Copies an array as doubles and says of which kind it was, d, f or ? for bool; 0 where it has not `count` entries of
   one of these `kinds`, side by side. */
char take(PyObject *from, const char *kinds, double *into, Py_ssize_t count);

/* The memory of an array of `count` entries of a kind, to be written to; NULL, and nothing to release, for others. */
void *lend(PyObject *array, const char *kind, Py_ssize_t count, Py_buffer *view);

/* How many entries an array has; 0 for what is none. */
Py_ssize_t entries(PyObject *array);

PyObject *flight_request(PyObject *self, PyObject *const *args, Py_ssize_t given);
PyObject *flight_command(PyObject *self, PyObject *const *args, Py_ssize_t given);
PyObject *joint_targets(PyObject *self, PyObject *const *args, Py_ssize_t given);
PyObject *place_links(PyObject *self, PyObject *const *args, Py_ssize_t given);
PyObject *link_gaps(PyObject *self, PyObject *const *args, Py_ssize_t given);
PyObject *sphere_heights(PyObject *self, PyObject *const *args, Py_ssize_t given);
