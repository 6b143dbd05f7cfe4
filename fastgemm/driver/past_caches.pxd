"""Writing an output that no cache holds: whole lines, which are not read first.

A store to a line that is not in a cache reads it from memory before it changes it, so that memory moves twice what is
written, and more slowly the more rows are written at a time (Zen 4, one core, GB/s of an output of 128 MB: row after
row 26, 8 or 16 rows by turns 20 to 25, 96 rows 10; rows of 960 bytes 10 at any number; whole lines past the caches 30
to 41).
"""

from libc.string cimport memcpy

cdef extern from *:
    """
    #if defined(__SSE2__)
    #include <emmintrin.h>
    static inline void fg_lines_past(char* to, const char* from, Py_ssize_t lines)
    {
        for (; lines > 0; --lines, to += 64, from += 64) {
            __m128i x0 = _mm_loadu_si128((const __m128i*)from);
            __m128i x1 = _mm_loadu_si128((const __m128i*)(from + 16));
            __m128i x2 = _mm_loadu_si128((const __m128i*)(from + 32));
            __m128i x3 = _mm_loadu_si128((const __m128i*)(from + 48));
            _mm_stream_si128((__m128i*)to, x0);
            _mm_stream_si128((__m128i*)(to + 16), x1);
            _mm_stream_si128((__m128i*)(to + 32), x2);
            _mm_stream_si128((__m128i*)(to + 48), x3);
        }
    }
    #define fg_fence_past() _mm_sfence()
    #else
    #include <string.h>
    #define fg_lines_past(to, from, lines) memcpy(to, from, (size_t)(lines) * 64)
    #define fg_fence_past() ((void)0)
    #endif
    """
    void fg_lines_past(char* to, const char* begin, Py_ssize_t lines) nogil
    # Before what was written so is announced to another thread.
    void fg_fence_past() nogil


cdef inline void write_past(Py_ssize_t rows, Py_ssize_t bytes, const char* begin, Py_ssize_t gap, char* to,
                            Py_ssize_t step) noexcept nogil:
    # Rows of so many bytes, `gap` bytes apart where they begin, `step` where they go: lines that they fill go past the
    # caches, the ends of rows, which others share, through them.
    cdef Py_ssize_t _i, head, lines
    for _i in range(rows):
        head = min(bytes, -<Py_ssize_t>to & 63)
        lines = (bytes - head) >> 6
        memcpy(to, begin, head)
        fg_lines_past(to + head, begin + head, lines)
        head += lines << 6
        memcpy(to + head, begin + head, bytes - head)
        begin += gap
        to += step
