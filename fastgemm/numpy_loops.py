"""install: NumPy's own ``@`` on our kernels.

One switch and a count of blocks decide whether our loops stand in NumPy's ufuncs; `_install` puts them there and back.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from . import _install, kernels
from .locks import lock

# Ours are in place while somebody wants them: install() without its uninstall(), or a block of installed().
# Changes hold the lock.
_lock = lock()
_switched = False
_blocks = 0


def _prepare() -> None:
    """Let fail what can fail before NumPy is touched: FASTGEMM_ISA, a damaged installation."""
    _install.prepare()
    tier = kernels.active_isa()
    if tier is not None:
        kernels.load(tier.name)


def _warn_of(covered: list[str]) -> None:
    if covered:
        names = ", ".join(covered)
        warnings.warn(f"another library has replaced NumPy's loops after fastgemm did; those stay: {names}",
                      RuntimeWarning, stacklevel=3)


def install() -> None:
    """Let NumPy's own products run on fastgemm: ``@``, `np.matmul`, and what is built on them.

    The inner loops of `np.matmul`, and of `np.matvec`, `np.vecmat` and `np.vecdot` where this NumPy has them, are
    replaced for the dtypes that have kernels.  All else stays NumPy's: broadcasting, casts, ``out``, errors,
    subclasses, overrides, other dtypes.

    Raises
    ------
    RuntimeError
        If FASTGEMM_ISA cannot be had, or NumPy refuses a loop.  NumPy is then as it was.

    See Also
    --------
    installed : for one block of code.

    Notes
    -----
    A switch, not a count: installing twice is the same as once.  It may be thrown at any time, in any thread: calls
    under way finish on the loop that they began with.  `np.dot`, `np.inner`, `np.tensordot` and the single loop of
    `np.einsum` stay NumPy's, for they do not call these ufuncs: fastgemm has functions of those names.  bfloat16 stays
    a cast to float32 first, whose loop is ours: ml_dtypes gives NumPy no loop for it that could be replaced, and one
    that was added could not be taken out again.  `fastgemm.matmul` reads bfloat16 as it is.

    Examples
    --------
    >>> import numpy as np, fastgemm
    >>> fastgemm.install()
    >>> np.ones((2, 3)) @ np.ones((3, 2))
    array([[3., 3.],
           [3., 3.]])
    >>> fastgemm.uninstall()
    """
    global _switched
    _prepare()
    with _lock:
        _install.enter_all()
        _switched = True


def uninstall() -> None:
    """Undo `install`: NumPy's loops are put back, the very pointers that stood there.

    Without a preceding `install` it does nothing.  Inside a block of `installed` it takes effect when the last such
    block of the process ends.

    Warns
    -----
    RuntimeWarning
        Where another library has replaced a loop after fastgemm did: that one is left in place.

    Examples
    --------
    >>> import fastgemm
    >>> fastgemm.install()
    >>> fastgemm.uninstall()
    >>> fastgemm.is_installed()
    False
    """
    global _switched
    covered: list[str] = []
    with _lock:
        if _switched and not _blocks:
            covered = _install.leave_all()
        _switched = False
    _warn_of(covered)


def is_installed() -> bool:
    """Tell whether NumPy's own products run on fastgemm now.

    Returns
    -------
    bool
        True where every replaced loop is in place.

    Examples
    --------
    >>> import fastgemm
    >>> fastgemm.is_installed()
    False
    """
    return _install.all_ours()


@contextmanager
def installed() -> Iterator[None]:
    """`install` for one block of code.

    Blocks may be nested and may overlap in several threads: NumPy's loops are put back when the last one ends, unless
    `install` has been called in the meantime or before.  They are NumPy's own, so all threads see them.

    Raises
    ------
    RuntimeError
        As `install` does.

    Examples
    --------
    >>> import fastgemm
    >>> with fastgemm.installed():
    ...     fastgemm.is_installed()
    True
    """
    global _blocks
    _prepare()
    with _lock:
        _install.enter_all()
        _blocks += 1
    try:
        yield
    finally:
        covered: list[str] = []
        with _lock:
            _blocks -= 1
            if not _blocks and not _switched:
                covered = _install.leave_all()
        _warn_of(covered)
