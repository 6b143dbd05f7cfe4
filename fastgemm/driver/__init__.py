"""The driver: what happens between a call and its microkernels.

    _kernels.pyx   the loaded kernels
    _plan.pyx      the plan cache, Plan
    _ahead.pyx     what a plan's tiles fetch ahead
    _team.pyx      the split of a call over threads
    _loops.pyx     the blocked loops around the kernels
    _dots.pyx      those of operands that both lie along k
    _strips.pyx    those of few rows by a B in place
    _gemv.pyx      those of one row
    in_place.pxd   the A of a dot product as it lies: the sign of its bytes, where its rows begin, and copies of them
    _symmetric.pyx a @ a.T: half of them
    threads.pxd    what an OpenMP region needs around it: workspaces, binding, fork guard
    abi.pxd        the C functions that a kernel module provides
"""
