"""Builder: graphs written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import ops, rules
from .ir import Graph, GraphError, Node, Value, fresh, moved


class Tensor:
    """A value of a graph that is being built; ``+ - * / ** @ -x`` and the methods below make new ones.

    Examples
    --------
    >>> from fastgemm.graph import Builder
    >>> x = Builder().input("x", (4, 8), "float32")
    >>> (x.reshape(2, 2, 8).transpose(1, 0, 2) * 2).shape, (x @ x.T).shape
    ((2, 2, 8), (4, 4))
    """

    # NumPy leaves `array + tensor` to the tensor.
    __array_ufunc__ = None

    def __init__(self, build: Builder, at: int) -> None:
        self._build, self._at = build, at

    @property
    def name(self) -> str:
        """Name of the value."""
        return self.value.name

    @property
    def value(self) -> Value:
        """The value itself."""
        return self._build._values[self._at]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the value."""
        return self.value.dtype

    @property
    def T(self) -> Tensor:
        """The last two axes exchanged."""
        axes = tuple(range(len(self.shape)))
        return self._build.apply("transpose", self, perm=(*axes[:-2], *axes[:-3:-1]))

    def reshape(self, *shape: Any) -> Tensor:
        """Return it in another shape."""
        return self._build.apply("reshape", self, shape=shape[0] if isinstance(shape[0], (tuple, list)) else shape)

    def transpose(self, *perm: int) -> Tensor:
        """Return it with the axes in another order."""
        return self._build.apply("transpose", self, perm=perm or None)

    def __neg__(self) -> Tensor:
        return self._build.apply("neg", self)

    def __add__(self, other: Any) -> Tensor:
        return self._build.apply("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self._build.apply("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self._build.apply("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._build.apply("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self._build.apply("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._build.apply("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return self._build.apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._build.apply("div", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self._build.apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return self._build.apply("matmul", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return self._build.apply("pow", self, other)

    def __repr__(self) -> str:
        return f"Tensor({self.value})"


class Builder:
    """Writes a graph, an operation at a time.

    Every operation of `ops.OPS` is a method: ``build.softmax(x, axis=-1)``; `dir` lists them, and `help` of one says
    what it takes and means.  Operands are tensors of this builder, arrays, or Python numbers, which take the type of
    the tensors beside them.

    Parameters
    ----------
    name : str
        The graph's.

    Raises
    ------
    GraphError
        From every method, if operands do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm.graph import Builder
    >>> build = Builder("layer")
    >>> x = build.input("x", (4, 8), "float32")
    >>> hidden = build.relu(x @ np.ones((8, 16), "f4") + np.zeros(16, "f4"))
    >>> build.output(build.softmax(hidden / 4), "y")
    >>> [node.op for node in build.graph().nodes]
    ['matmul', 'add', 'relu', 'div', 'softmax']
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._nodes: list[Node] = []
        # Tensors know their values by the number: names may change.
        self._values: list[Value] = []
        self._known: dict[str, int] = {}
        self._chosen: set[str] = set()
        self._inputs: list[str] = []
        self._outputs: list[str] = []

    def input(self, name: str, shape: Sequence[int], dtype: Any) -> Tensor:
        """Add an input and return it."""
        try:
            made = Value(name, rules.shape_of(shape), rules.dtype_of(dtype))
        except (ValueError, TypeError) as error:
            raise GraphError(f"input {name!r}: {error}") from None
        self._claim(name)
        self._inputs.append(name)
        return self._made(made)

    def constant(self, data: ArrayLike, name: str | None = None) -> Tensor:
        """Add an array whose numbers are known, and return it.

        It must not change afterwards: it is copied only if it is not aligned, or in another machine's order of bytes.
        """
        stem = name or f"constant_{sum(value.is_constant for value in self._values)}"
        try:
            array = np.asarray(data)
            rules.dtype_of(array.dtype)
        except (ValueError, TypeError) as error:
            raise GraphError(f"constant {stem!r}: {error}") from None
        return self._made(Value(self._fresh(stem, name), array.shape, array.dtype, array))

    def output(self, tensor: Tensor, name: str | None = None) -> None:
        """Make a tensor an output of the graph, by its own or another name."""
        self._owned(tensor)
        made = tensor.name if name is None else self._rename(tensor, name)
        self._chosen.add(made)
        self._outputs.append(made)

    def apply(self, op: str, *operands: Any, name: str | None = None, **attributes: Any) -> Tensor:
        """Add an operation by its name and return its result."""
        stem = name or f"{op}_{sum(node.op == op for node in self._nodes)}"
        try:
            row = ops.op(op)
            merged = ops.attributes_of(row, attributes)
            tensors = self._tensors(operands)
            spec = ops.infer(op, [tensor.value.spec for tensor in tensors], merged)
        except (ValueError, TypeError, OverflowError) as error:
            raise GraphError(f"node {stem!r} ({op}): {error}") from None
        output = self._fresh(stem, name)
        node = Node(op, tuple(tensor.name for tensor in tensors), (output,), merged, name or "")
        self._nodes.append(node)
        return self._made(Value(output, spec.shape, spec.dtype))

    def graph(self) -> Graph:
        """Return the graph as it is now: without what no output needs."""
        whole = Graph(self._nodes, self._values, self._inputs, self._outputs, self._name)
        return whole.changed(whole.nodes)

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        if name not in ops.OPS:
            raise AttributeError(f"a builder has no {name!r}; operations are {', '.join(sorted(ops.OPS))}")

        def write(*operands: Any, name: str | None = None, **attributes: Any) -> Tensor:
            return self.apply(row.name, *operands, name=name, **attributes)

        row = ops.OPS[name]
        write.__name__ = write.__qualname__ = name
        write.__doc__ = ops.said(row)
        return write

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *ops.OPS})

    def _made(self, value: Value) -> Tensor:
        self._known[value.name] = len(self._values)
        self._values.append(value)
        return Tensor(self, self._known[value.name])

    def _fresh(self, stem: str, chosen: str | None) -> str:
        """Return a name that no value has, made of a stem that the caller chose or nobody did."""
        name = fresh(stem, self._known)
        if chosen:
            self._chosen.add(name)
        return name

    def _claim(self, name: str) -> None:
        """Make a name free that the caller chose for another value: one that nobody chose gives way."""
        if name in self._chosen:
            raise GraphError(f"there is a value {name!r} already")
        if name in self._known:
            self._move(name, fresh(name, self._known))
        self._chosen.add(name)

    def _move(self, old: str, new: str) -> None:
        """Give a value another name, which is free."""
        self._chosen.discard(old)
        at = self._known[new] = self._known.pop(old)
        self._values[at] = replace(self._values[at], name=new)
        self._nodes = [moved(node, {old: new}) for node in self._nodes]

    def _owned(self, tensor: Any) -> Tensor:
        if not isinstance(tensor, Tensor) or tensor._build is not self:
            raise GraphError(f"{tensor!r} is no tensor of this builder")
        return tensor

    def _tensors(self, operands: Sequence[Any]) -> list[Tensor]:
        known = [self._owned(operand) for operand in operands if isinstance(operand, Tensor)]
        # A bool among them chooses (`where`); the numbers beside it take the type of the others.
        kinds = [tensor.dtype for tensor in known if tensor.dtype != np.dtype(bool)]
        found = []
        for operand in operands:
            if isinstance(operand, Tensor):
                found.append(operand)
            elif isinstance(operand, (int, float)) and kinds:
                found.append(self.constant(rules.number_of(operand, kinds[0])))
            else:
                found.append(self.constant(operand))
        return found

    def _rename(self, tensor: Tensor, name: str) -> str:
        old = tensor.name
        if name == old:
            return name
        self._claim(name)
        if tensor.value.is_constant or old in self._inputs or old in self._outputs:
            # It keeps its own name where that is known outside.
            return self.apply("identity", tensor, name=name).name
        self._move(old, name)
        return name
