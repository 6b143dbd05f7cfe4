# cython: language_level=3, freethreading_compatible=True
"""The CPUID instruction and the XCR0 register.  On other processors: no answer.

Compiled for the baseline, because it runs before anybody knows what the CPU can do.  FASTGEMM_TILES_IN_C: every CPU has
tile registers, of kernels/tiles_in_c.pxd.
"""

cdef extern from *:
    """
    #if defined(__x86_64__) || defined(__i386__)
    #include <cpuid.h>
    #include <immintrin.h>

    /* Checks the highest leaf first, for the basic and the extended range alike. */
    static int fastgemm_cpuid(unsigned leaf, unsigned subleaf, unsigned *r)
    {
        if (!__get_cpuid_count(leaf, subleaf, r, r + 1, r + 2, r + 3)) return 0;
    #ifdef FASTGEMM_TILES_IN_C
        if (leaf == 7 && subleaf == 0) r[3] |= 1u << 22 | 1u << 24 | 1u << 25;
    #endif
        return 1;
    }

    __attribute__((target("xsave")))
    static unsigned long long fastgemm_xcr0(void)
    {
    #ifdef FASTGEMM_TILES_IN_C
        return _xgetbv(0) | 0x60000;
    #else
        return _xgetbv(0);
    #endif
    }
    #if defined(FASTGEMM_TILES_IN_C)
    static int fastgemm_tiles(void) { return 1; }
    #elif defined(__linux__)
    #include <sys/syscall.h>
    #include <unistd.h>
    /* ARCH_REQ_XCOMP_PERM of XFEATURE_XTILEDATA: for all threads of the process, and for those that it forks. */
    static int fastgemm_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18L) == 0; }
    #else
    static int fastgemm_tiles(void) { return 0; }
    #endif
    #else
    static int fastgemm_tiles(void) { return 0; }
    static int fastgemm_cpuid(unsigned leaf, unsigned subleaf, unsigned *r)
    {
        (void)leaf; (void)subleaf; (void)r;
        return 0;
    }

    static unsigned long long fastgemm_xcr0(void)
    {
        return 0;
    }
    #endif
    """
    int fastgemm_cpuid(unsigned leaf, unsigned subleaf, unsigned *r) nogil
    unsigned long long fastgemm_xcr0() nogil
    int fastgemm_tiles() nogil


def cpuid(unsigned int leaf, unsigned int subleaf=0):
    """Return (eax, ebx, ecx, edx) of a CPUID leaf, or None when the CPU has no such leaf."""
    cdef unsigned int[4] r
    r[0] = r[1] = r[2] = r[3] = 0
    if not fastgemm_cpuid(leaf, subleaf, r):
        return None
    return (r[0], r[1], r[2], r[3])


def xcr0():
    """Return the register states that the operating system saves: bits of XCR0.

    0 where the operating system has not enabled XSAVE; there the instruction would fault.
    """
    leaf = cpuid(1)
    if leaf is None or not leaf[2] >> 27 & 1:
        return 0
    return fastgemm_xcr0()


def ask_for_tiles():
    """Ask the system for tile registers, which it gives to processes that do; return whether it does.

    It refuses where a thread has an alternative signal stack that is too small for them.
    """
    return bool(fastgemm_tiles())
