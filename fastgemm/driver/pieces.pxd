"""How threads share a length of work: each has a share of its own, and takes pieces of the rest until nothing is left.

Which share is whose is the same in every call, so that what a thread's part of the work reads stays in its core's cache
from call to call.  A share that its thread has not begun when nothing else is left is another's, who gets there first.
(Shares by arrival, Zen 4, two threads, time over this one's, medians of two to four runs of bench/builds.py: f32 1 x
1024 x 256 1.0 to 1.4, 1 x 2048 x 512 1.06 to 1.17, 800 x 800 x 4 1.0 to 1.3, 262144 x 2 x 4 1.12; which of two threads
came first was often the same in all calls of a process. 186 real shapes 1.01 in the mean, f64 alike.)
"""

cdef extern from *:
    """
    enum { FG_SHARES = 1024 };          /* most threads of a team */
    typedef struct {
        Py_ssize_t dealt;               /* units behind the shares that somebody has taken */
        unsigned long long begun[FG_SHARES / 64];
    } fg_pieces;

    static inline int fg_begin(fg_pieces *pieces, Py_ssize_t share) {
        const unsigned long long bit = 1ULL << (share & 63);
        return !(__atomic_fetch_or(&pieces->begun[share >> 6], bit, __ATOMIC_RELAXED) & bit);
    }
    /* Share number i: `own` units, and what is left behind it where that is less than `least`. */
    static inline Py_ssize_t fg_share(fg_pieces *pieces, Py_ssize_t i, Py_ssize_t total, Py_ssize_t own,
                                      Py_ssize_t least, Py_ssize_t *first) {
        *first = i * own;
        if ((i && total - *first < least) || *first >= total || !fg_begin(pieces, i)) return 0;
        return total - *first - own < least ? total - *first : own;
    }
    /* Take the next piece of `total` units: thread number `id`'s share, then half of an equal share of what lies behind
       the shares of `team` threads, then the shares that nobody has begun.  No piece is shorter than `least` unless
       total is.  Returns its length, 0 when nothing is left. */
    static inline Py_ssize_t fg_take(fg_pieces *pieces, Py_ssize_t total, Py_ssize_t team, Py_ssize_t id,
                                     Py_ssize_t own, Py_ssize_t least, Py_ssize_t *first) {
        const Py_ssize_t rest = total - team * own;
        Py_ssize_t at, count, i;
        if (id < team && (count = fg_share(pieces, id, total, own, least, first))) return count;
        at = __atomic_load_n(&pieces->dealt, __ATOMIC_RELAXED);
        while (rest >= least && at < rest) {
            count = (rest - at) / (2 * team) / least * least;
            if (count < least) count = least;
            if (count > rest - at - least) count = rest - at;
            if (__atomic_compare_exchange_n(&pieces->dealt, &at, at + count, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                *first = team * own + at;
                return count;
            }
        }
        for (i = 0; i < team; i++)
            if ((count = fg_share(pieces, i, total, own, least, first))) return count;
        return 0;
    }
    /* The number of the next of so many pieces, in order: whose they are does not matter. */
    static inline Py_ssize_t fg_next(fg_pieces *pieces, Py_ssize_t total) {
        const Py_ssize_t at = __atomic_fetch_add(&pieces->dealt, 1, __ATOMIC_RELAXED);
        return at < total ? at : -1;
    }
    """
    ctypedef struct fg_pieces:
        pass
    Py_ssize_t fg_take(fg_pieces*, Py_ssize_t total, Py_ssize_t team, Py_ssize_t id, Py_ssize_t own, Py_ssize_t least,
                       Py_ssize_t* first) nogil
    Py_ssize_t fg_next(fg_pieces*, Py_ssize_t total) nogil
