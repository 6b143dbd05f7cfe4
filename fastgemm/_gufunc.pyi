import numpy as np

gufunc: np.ufunc
