# Nothing of Python: the team calls this module from C.
