"""The driver: what happens between a call and its microkernels.

    _kernels.pyx   the loaded kernels
    _plan.pyx      the plan cache, Plan
    _ahead.pyx     what a plan's tiles fetch ahead
    _team.pyx      the split of a call over threads
    _loops.pyx     the blocked loops around the kernels
    _dots.pyx      those of operands that both lie along k
    _strips.pyx    those of few rows by a B in place
    _gemv.pyx      those of one row
    _small.pyx     those of stacks of small products and of narrow outputs
    in_place.pxd   the A of a dot product as it lies: the sign of its bytes, where its rows begin, and copies of them
    _symmetric.pyx a @ a.T: half of them
    turned.pxd     few columns of A turned into rows, four steps of k at a time
    soon.pxd       what comes after a product, fetched meanwhile
    past_caches.pxd  outputs that no cache holds, written by whole lines
    spread.pxd     which products of float32 limbs compute as well as multiply-adds
    threads.pxd    what an OpenMP region needs around it: workspaces, binding, fork guard
    openmp.pxd     what is asked of OpenMP, and what a build without it answers
    pieces.pxd     how threads share a length of work
    floats.pxd     the floating-point flags of a thread
    structs.pxd    the values that these modules pass to each other
    abi.pxd        the C functions that a kernel module provides
"""
