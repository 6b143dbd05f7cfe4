"""Which float32 products limbs give as multiply-adds do (kernels/limbs.pxd).

Tile registers take subnormal numbers for zero and raise no flags.  So no limb may be subnormal, no product of two that
counts, and no sum may overflow: what an operand's numbers are, but zeros, lies between 2^-102, of which the last bit is
2^-125, and the greatest that does not round to infinity, and so do products, of k of which the sum is below 2^127.
"""

from fastgemm.driver.abi cimport offset_t, spread_t

cdef enum:
    LEAST = 127 - 102       # exponents, as they are stored
    MOST = 253
    BIAS = 127

cdef extern from *:
    """
    #ifndef FASTGEMM_SPREAD
    #define FASTGEMM_SPREAD
    static inline int fg_bits(unsigned long long n) { return 64 - __builtin_clzll(n); }
    #endif
    """
    int bits_of "fg_bits"(unsigned long long) nogil     # of a number above zero


cdef inline bint fits(const offset_t* offsets, Py_ssize_t k) noexcept nogil:
    # What has been seen so far; numbers that are yet to come cannot mend it.
    cdef const spread_t* a = offsets[0].spread
    cdef const spread_t* b = offsets[1].spread
    cdef int most_a = a.most >> 23, most_b = b.most >> 23, least_a, least_b
    if most_a > MOST or most_b > MOST:
        return False
    if a.most == 0 or b.most == 0:
        # Zeros alone, or nothing yet.
        return True
    least_a, least_b = (a.least + 1) >> 23, (b.least + 1) >> 23
    return (least_a >= LEAST and least_b >= LEAST and least_a + least_b >= LEAST + BIAS
            and most_a + most_b + 2 + bits_of(k) <= 2 * BIAS + 127)
