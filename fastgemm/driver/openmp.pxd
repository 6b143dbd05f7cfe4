"""What the driver asks of OpenMP, and what a build without it answers."""

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #define fg_team_size() omp_get_num_threads()
    #define fg_has_openmp() 1
    #define fg_in_parallel() omp_in_parallel()
    #define fg_barrier() _Pragma("omp barrier")
    #else
    #define fg_team_size() 1
    #define fg_has_openmp() 0
    #define fg_in_parallel() 0
    #define fg_barrier()
    #endif
    """
    int fg_team_size() nogil
    int fg_has_openmp() nogil
    int fg_in_parallel() nogil
    void fg_barrier() nogil
