"""The calling thread's floating-point flags, as cheaply as the CPU gives them.

NumPy asks for them through fenv, which also reads the x87 unit; vector code only ever sets SSE's.
"""

cdef extern from *:
    """
    #ifndef FASTGEMM_FLOATS
    #define FASTGEMM_FLOATS
    #if defined(__x86_64__)
    #include <immintrin.h>
    static inline unsigned fg_float_state(void) { return _mm_getcsr(); }
    static inline void fg_set_float_state(unsigned csr) { _mm_setcsr(csr); }
    enum { FG_FLAGS = 0x3f, FG_INVALID = 1, FG_DIVIDE = 4, FG_OVERFLOW = 8, FG_UNDERFLOW = 16 };
    #else
    #include <fenv.h>
    static inline unsigned fg_float_state(void) { return (unsigned)fetestexcept(FE_ALL_EXCEPT); }
    static inline void fg_set_float_state(unsigned flags) {
        feclearexcept(FE_ALL_EXCEPT);
        if (flags) feraiseexcept((int)flags);
    }
    enum { FG_FLAGS = FE_ALL_EXCEPT, FG_INVALID = FE_INVALID, FG_DIVIDE = FE_DIVBYZERO,
           FG_OVERFLOW = FE_OVERFLOW, FG_UNDERFLOW = FE_UNDERFLOW };
    #endif
    /* The flags that NumPy reports: not "inexact", not "denormal operand". */
    #define FG_REPORTED (FG_INVALID | FG_DIVIDE | FG_OVERFLOW | FG_UNDERFLOW)
    #endif
    """
    unsigned fg_float_state() nogil
    void fg_set_float_state(unsigned) nogil
    const unsigned FG_FLAGS, FG_INVALID, FG_DIVIDE, FG_OVERFLOW, FG_UNDERFLOW, FG_REPORTED
