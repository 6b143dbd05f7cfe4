"""The driver: what happens between a call and its microkernels.

    _driver.pyx    blocked loops, the split over threads, the plan cache
    threads.pxd    what an OpenMP region needs around it: workspaces, binding, fork guard
    abi.pxd        the C functions that a kernel module provides
"""
