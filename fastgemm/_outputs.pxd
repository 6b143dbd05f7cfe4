from numpy cimport ndarray, npy_intp

cdef enum:
    ALIGNED_FROM = 1 << 20  # bytes of an output; below, a handler of its own (0.7 us) is not worth it

cdef ndarray empty(int nd, npy_intp* shape, int type_num)
cdef object by_it(object made, tuple arguments, dict keywords)
