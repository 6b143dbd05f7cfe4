from numpy cimport ndarray, npy_intp

cdef enum:
    LARGE = 1 << 16     # numbers of an output from which its memory may be `_outputs`': of 16 bytes, `ALIGNED_FROM`

cdef ndarray empty(int nd, npy_intp* shape, int type_num)
cdef object by_it(object made, tuple arguments, dict keywords)
