# Nothing of Python: the loops call this module from C.
