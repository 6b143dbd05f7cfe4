"""Lower halves of vectors of 64 bytes, for a last vector that has no more numbers than that.

A CPU that computes such vectors in two halves (Zen 4) does the lower one alone in half the time.  (Others should take
as long as for a whole one; that was not measured.)
"""

from fastgemm.kernels.simd cimport vf32, vf64

cdef extern from *:
    """
    #ifndef FASTGEMM_LOWER
    #define FASTGEMM_LOWER
    #if FASTGEMM_VECTOR_BYTES == 64 && defined(__AVX512VL__)
    typedef float lower_f32 __attribute__((vector_size(32)));
    typedef double lower_f64 __attribute__((vector_size(32)));
    static inline lower_f32 lower_of_f32(vf32 v) { return (lower_f32)_mm512_castps512_ps256((__m512)v); }
    static inline lower_f64 lower_of_f64(vf64 v) { return (lower_f64)_mm512_castpd512_pd256((__m512d)v); }
    static inline vf32 extended_f32(lower_f32 v) { return (vf32)_mm512_zextps256_ps512((__m256)v); }
    static inline vf64 extended_f64(lower_f64 v) { return (vf64)_mm512_zextpd256_pd512((__m256d)v); }
    static inline vf32 every_f32(const float *p) { return (vf32)_mm512_set1_ps(*p); }
    static inline vf64 every_f64(const double *p) { return (vf64)_mm512_set1_pd(*p); }
    FASTGEMM_TAILS(lower_tail, 256, lower_f32, lower_f64)
    #endif
    #endif
    """
    ctypedef float lower_f32
    ctypedef double lower_f64
    lower_f32 lower_of_f32(vf32) nogil
    lower_f64 lower_of_f64(vf64) nogil
    vf32 extended_f32(lower_f32) nogil                      # zeros behind it
    vf64 extended_f64(lower_f64) nogil
    vf32 every_f32(const float*) nogil                      # a number in every lane
    vf64 every_f64(const double*) nogil
    lower_f32 lower_tail_f32_1(const float*, int n) nogil   # as `tail_f32_1`, n being at most half a vector
    lower_f32 lower_tail_f32_2(const float*, int n) nogil
    lower_f64 lower_tail_f64_1(const double*, int n) nogil
    lower_f64 lower_tail_f64_2(const double*, int n) nogil
