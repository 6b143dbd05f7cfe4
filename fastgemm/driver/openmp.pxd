"""What the driver asks of OpenMP, and what a build without it answers.

Regions are opened in C.  A parallel block of Cython's lets the GIL go where its thread has it, and asks Python whether
it has, which before 3.12 says yes to every thread once there has been a second interpreter: the process then ends.
"""

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #define fg_team_size() omp_get_num_threads()
    #define fg_has_openmp() 1
    #define fg_in_parallel() omp_in_parallel()
    #define fg_barrier() _Pragma("omp barrier")
    #define fg_member_id() omp_get_thread_num()
    #else
    #define fg_team_size() 1
    #define fg_has_openmp() 0
    #define fg_in_parallel() 0
    #define fg_barrier()
    #define fg_member_id() 0
    #endif
    /* Call a function once in each of some threads, the caller's among them: number 0. */
    static void fg_region(int threads, void (*member)(void *shared, int id), void *shared) {
        (void)threads;
    #ifdef _OPENMP
        _Pragma("omp parallel num_threads(threads)")
    #endif
        member(shared, fg_member_id());
    }
    """
    int fg_team_size() nogil
    int fg_has_openmp() nogil
    int fg_in_parallel() nogil
    void fg_barrier() nogil
    void fg_region(int threads, void (*member)(void*, int) noexcept nogil, void* shared) nogil
