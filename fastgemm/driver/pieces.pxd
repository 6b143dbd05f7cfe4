"""How threads share a length of work: one counter, from which each takes pieces until nothing is left."""

cdef extern from *:
    """
    /* Take the next piece of `total` units: the first `team` pieces have `own` units, later ones half of an equal
       share of the rest.  None is shorter than `least` unless total is.  Returns its length, 0 when nothing is left. */
    static Py_ssize_t fg_take(Py_ssize_t *taken, Py_ssize_t total, Py_ssize_t team, Py_ssize_t own,
                              Py_ssize_t least, Py_ssize_t *first) {
        Py_ssize_t at = __atomic_load_n(taken, __ATOMIC_RELAXED), count;
        do {
            if (at >= total) return 0;
            count = own;
            if (at >= team * own) {
                count = (total - at) / (2 * team) / least * least;
                if (count < least) count = least;
            }
            if (count > total - at - least) count = total - at;
        } while (!__atomic_compare_exchange_n(taken, &at, at + count, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        *first = at;
        return count;
    }
    """
    Py_ssize_t fg_take(Py_ssize_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t*) nogil
