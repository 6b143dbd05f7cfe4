# Compiled modules call it; it has nothing for Python.
