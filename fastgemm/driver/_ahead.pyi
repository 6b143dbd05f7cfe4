# Nothing of Python: plans call this module from C.
