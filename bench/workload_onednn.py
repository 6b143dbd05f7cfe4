"""The workloads as oneDNN primitives with post-ops: what a C++ user of oneDNN writes without its graph compiler.

Bias, relu, scales, zero points and the mask are post-ops and attributes of the products; weights lie in the layout that
the primitive asks for; attention writes its result transposed, so that there is no reorder.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from peer_onednn import DST, SRC, TYPES, WEIGHTS, Handle, Objects, OneDnn, _Argument
from peers import Bound, Unsupported
from workload_cases import Workload
from workload_peers import Network, bound

if TYPE_CHECKING:
    import numpy as np
    from workload_data import Mha, Mlp

# Values of dnnl_types.h (oneDNN 3).
BIAS, SRC_1, SCALES, ZEROS, POST_OP = 41, 2, 4096, 8192, 32768
RELU, LINEAR, BINARY_ADD, SOFTMAX, INFERENCE = 0x20, 0x26, 0x1FFF0, 0x30000, 96
ANY, QUERY_WEIGHTS = 1, 131
# Of the objects that are made for a network; the longer names first.
KINDS = ("primitive_desc", "memory_desc", "primitive_attr", "post_ops", "primitive", "memory")
ALLOCATE = ctypes.c_void_p(-1)


class Tensor(NamedTuple):
    """An array of NumPy's, its memory object and its description."""

    array: np.ndarray
    memory: Handle
    view: Handle


class OneDnnNetwork(OneDnn, Network):
    """oneDNN's primitives in order on one stream."""

    name = "onednn"
    summary = "oneDNN primitives with post-ops from the wheel onednn-cpu-gomp, by ctypes"
    foreign: ClassVar[bool] = True
    objects: Objects | None = None

    def network(self, work: Workload, data: Mlp | Mha) -> Bound:
        """Make every primitive; a call executes them and waits."""
        self.steps: list[tuple[Handle, Any, int]] = []
        self.objects = Objects(self.lib)
        # Arrays that memory objects point to; they outlive those.
        self.alive: list[Any] = [self.objects]
        result = self._perceptron(work, data) if work.kind == "mlp" else self._attention(work, data)
        execute, wait, stream = self.lib.dnnl_primitive_execute, self.lib.dnnl_stream_wait, self.stream
        execute.argtypes = [Handle, Handle, ctypes.c_int, ctypes.POINTER(_Argument)]
        wait.argtypes = [Handle]
        steps = tuple(self.steps)

        def run() -> np.ndarray:
            for primitive, arguments, count in steps:
                if execute(primitive, stream, count, arguments):
                    raise RuntimeError("oneDNN failed")
            wait(stream)
            return result

        return bound(run, keep=self.alive)

    def _perceptron(self, work: Workload, data: Mlp) -> np.ndarray:
        import numpy as np

        now, x = data.scale, self._tensor(data.x)
        for layer in data.layers:
            n = layer.weight.shape[1]
            kind = np.dtype(np.uint8) if work.dtype == "int8" else x.array.dtype
            y = self._tensor(np.empty((work.batch, n), kind))
            scales: list[tuple[int, Any, int]] = []
            zeros: list[tuple[int, Any]] = []
            if work.dtype == "int8":
                scales = [(SRC, [now.scale], 0), (WEIGHTS, layer.scales, 2), (DST, [layer.out.scale], 0)]
                zeros = [(SRC, now.zero), (DST, layer.out.zero)]
                now = layer.out
            attributes, extra = self._attributes(scales, zeros, [(RELU, 0.0, None)])
            bias = self._tensor(layer.bias.reshape(1, n))
            weight = self._tensor(layer.weight)
            self._product(x, weight, y, bias, attributes, extra, constant=True)
            x = y
        return x.array

    def _attention(self, work: Workload, data: Mha) -> np.ndarray:
        import numpy as np

        length, _, heads = work.sizes
        q, v, mask = (self._tensor(part) for part in (data.q, data.v, data.mask))
        keys = self._tensor(data.k.swapaxes(-1, -2))
        shape = (work.batch, heads, length, length)
        bytes_ = work.dtype == "int8"
        scores = self._tensor(np.empty(shape, np.float32 if bytes_ else data.q.dtype))
        q_scale, k_scale, v_scale, p_scale, out_scale = data.scales or (1.0,) * 5
        after = [(LINEAR, 1 / work.head**0.5, None), (BINARY_ADD, 0.0, mask)]
        first = [(SRC, [q_scale], 0), (WEIGHTS, [k_scale], 0)] if bytes_ else []
        self._product(q, keys, scores, None, *self._attributes(first, [], after))
        p = self._tensor(np.empty(shape, np.uint8)) if bytes_ else scores
        attributes, extra = self._attributes([(DST, [p_scale], 0)] if bytes_ else [], [], [])
        described = self._make(
            "dnnl_softmax_forward_primitive_desc_create", self.engine, ctypes.c_int(INFERENCE), ctypes.c_int(SOFTMAX),
            scores.view, p.view, ctypes.c_int(3), attributes,
        )  # fmt: skip
        self._step(described, [(SRC, scores.memory), (DST, p.memory), *extra])
        out = np.empty((work.batch, length, heads, work.head), data.q.dtype)
        second = [(SRC, [p_scale], 0), (WEIGHTS, [v_scale], 0), (DST, [out_scale], 0)] if bytes_ else []
        self._product(p, v, self._tensor(out.swapaxes(1, 2)), None, *self._attributes(second, [], []))
        return out

    def _tensor(self, array: np.ndarray) -> Tensor:
        kind = TYPES["bfloat16" if array.dtype.name == "uint16" else array.dtype.name]
        view = self._describe(array, kind)
        memory = self._make("dnnl_memory_create", view, self.engine, Handle(array.ctypes.data))
        self.alive.append(array)
        return Tensor(array, memory, view)

    def _attributes(
        self, scales: list[tuple[int, Any, int]], zeros: list[tuple[int, Any]], after: list[tuple[int, float, Any]]
    ) -> tuple[Handle, list[tuple[int, Handle]]]:
        """Make the attributes of a primitive; return them and the arguments that belong to them."""
        import numpy as np

        made = self._make("dnnl_primitive_attr_create")
        extra = []
        for argument, values, mask in scales:
            self._call("dnnl_primitive_attr_set_scales_mask", made, ctypes.c_int(argument), ctypes.c_int(mask))
            extra.append((SCALES | argument, self._tensor(np.asarray(values, np.float32).reshape(-1)).memory))
        for argument, value in zeros:
            self._call("dnnl_primitive_attr_set_zero_points_mask", made, ctypes.c_int(argument), ctypes.c_int(0))
            extra.append((ZEROS | argument, self._tensor(np.asarray([value], np.int32)).memory))
        if after:
            chain = self._make("dnnl_post_ops_create")
            for at, (kind, alpha, operand) in enumerate(after):
                if operand is None:
                    numbers = ctypes.c_float(alpha), ctypes.c_float(0.0)
                    self._call("dnnl_post_ops_append_eltwise", chain, ctypes.c_int(kind), *numbers)
                else:
                    self._call("dnnl_post_ops_append_binary", chain, ctypes.c_int(kind), operand.view)
                    extra.append((POST_OP * (at + 1) | SRC_1, operand.memory))
            self._call("dnnl_primitive_attr_set_post_ops", made, chain)
        return made, extra

    def _product(
        self, a: Tensor, b: Tensor, c: Tensor, bias: Tensor | None, attributes: Handle,
        extra: list[tuple[int, Handle]], constant: bool = False,
    ) -> None:  # fmt: skip
        weights = b.view
        if constant:
            dims = (ctypes.c_int64 * b.array.ndim)(*b.array.shape)
            kind = TYPES["bfloat16" if b.array.dtype.name == "uint16" else b.array.dtype.name]
            numbers = ctypes.c_int(b.array.ndim), dims, ctypes.c_int(kind), ctypes.c_int(ANY)
            weights = self._make("dnnl_memory_desc_create_with_tag", *numbers)
        described = self._make(
            "dnnl_matmul_primitive_desc_create", self.engine, a.view, weights, bias.view if bias else None, c.view,
            attributes,
        )  # fmt: skip
        memory = self._packed(described, b) if constant else b.memory
        arguments = [(SRC, a.memory), (WEIGHTS, memory), (DST, c.memory), *extra]
        self._step(described, arguments + ([(BIAS, bias.memory)] if bias else []))

    def _packed(self, described: Handle, b: Tensor) -> Handle:
        query = self.lib.dnnl_primitive_desc_query_md
        query.restype = Handle
        wanted = Handle(query(described, ctypes.c_int(QUERY_WEIGHTS), ctypes.c_int(0)))
        memory = self._make("dnnl_memory_create", wanted, self.engine, ALLOCATE)
        move = self._make(
            "dnnl_reorder_primitive_desc_create", b.view, self.engine, wanted, self.engine, ctypes.c_void_p(None)
        )
        primitive = self._make("dnnl_primitive_create", move)
        pair = (_Argument * 2)(_Argument(SRC, b.memory), _Argument(DST, memory))
        self._call("dnnl_primitive_execute", primitive, self.stream, ctypes.c_int(2), pair)
        self._call("dnnl_stream_wait", self.stream)
        return memory

    def _step(self, described: Handle, arguments: list[tuple[int, Handle]]) -> None:
        primitive = self._make("dnnl_primitive_create", described)
        packed = (_Argument * len(arguments))(*(_Argument(number, memory) for number, memory in arguments))
        self.steps.append((primitive, packed, len(arguments)))

    def _make(self, function: str, *arguments: Any) -> Handle:
        made = super()._make(function, *arguments)
        if self.objects is not None:
            self.objects.add(next(kind for kind in KINDS if kind in function), [made])
        return made

    def _call(self, function: str, *arguments: Any) -> None:
        if self.lib[function](*arguments):
            raise Unsupported(f"oneDNN refused {function.removeprefix('dnnl_')}")
