/* The module, and how its functions read and write arrays. */

#include "native.h"

int all_finite(const double *values, Py_ssize_t count)
{
    double total = 0.0;
    for (Py_ssize_t i = 0; i < count; i++)
        total += 0.0 * values[i];
    return total == 0.0;
}

static char *lent(PyObject *array, const char *kinds, Py_ssize_t count, int flags, Py_buffer *view)
{
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) {
        PyErr_Clear();
        return NULL;
    }
    if (view->len == count * view->itemsize && strlen(view->format) == 1 && strchr(kinds, view->format[0]))
        return view->buf;
    PyBuffer_Release(view);
    return NULL;
}

void *lend(PyObject *array, const char *kind, Py_ssize_t count, Py_buffer *view)
{
    return lent(array, kind, count, PyBUF_WRITABLE, view);
}

char take(PyObject *from, const char *kinds, double *into, Py_ssize_t count)
{
    Py_buffer view;
    void *at = lent(from, kinds, count, PyBUF_SIMPLE, &view);
    if (!at)
        return 0;
    char kind = view.format[0];
    for (Py_ssize_t i = 0; i < count; i++)
        into[i] = kind == 'd' ? ((double *)at)[i] : kind == 'f' ? (double)((float *)at)[i] : ((char *)at)[i] != 0;
    PyBuffer_Release(&view);
    return kind;
}

Py_ssize_t entries(PyObject *array)
{
    Py_buffer view;
    Py_ssize_t count = 0;
    if (PyObject_GetBuffer(array, &view, PyBUF_FORMAT) == 0) {
        count = view.itemsize > 0 ? view.len / view.itemsize : 0; /* NumPy has types of no bytes */
        PyBuffer_Release(&view);
    }
    PyErr_Clear();
    return count;
}

static const char NAMES[] = "See `deploy.shield.native`.";
#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NAMES}
static PyMethodDef methods[] = {
    FUNCTION(flight_request),
    FUNCTION(flight_command),
    FUNCTION(joint_targets),
    FUNCTION(place_links),
    FUNCTION(link_gaps),
    FUNCTION(sphere_heights),
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddStringConstant(made, "sources", SOURCES) < 0)
        Py_CLEAR(made);
    return made;
}
