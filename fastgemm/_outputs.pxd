from numpy cimport ndarray, npy_intp

cdef enum:
    OWN_FROM = 1 << 10      # bytes of an output; NumPy keeps smaller blocks itself
    ALIGNED_FROM = 1 << 20  # and where NumPy makes it: to set a handler for the call takes 0.7 us

cdef ndarray empty(int nd, npy_intp* shape, int type_num)
cdef object by_it(object made, tuple arguments, dict keywords)
