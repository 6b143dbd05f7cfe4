"""oneDNN through its C API by ctypes: the matmul primitive, made once a shape."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar

import peers
from peer_mkl import address
from peers import Availability, Bound, Library, Unsupported

if TYPE_CHECKING:
    import numpy as np

# Values of dnnl_types.h (oneDNN 3): data types, argument numbers, engine and stream kinds.
TYPES = {"float16": 1, "bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6, "float64": 7}
SRC, DST, WEIGHTS = 1, 17, 33
CPU, DEFAULT_STREAM = 1, 1
STATUS = {1: "out of memory", 2: "invalid arguments", 3: "unimplemented", 5: "runtime error", 6: "not required"}
Handle = ctypes.c_void_p


class _Argument(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("memory", Handle))


class _Version(ctypes.Structure):
    _fields_ = (("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int))


class OneDnn(Library):
    """oneDNN from the ``onednn-cpu-gomp`` wheel (OpenMP build)."""

    name = "onednn"
    summary = "oneDNN's matmul primitive from the wheel onednn-cpu-gomp, by ctypes"
    foreign: ClassVar[bool] = True

    def available(self, threads: int) -> Availability:
        """Load the library, make its engine and stream."""
        path = peers.shared_library("onednn-cpu-gomp", "libdnnl")
        if path is None:
            return Availability(False, "libdnnl not found: install the wheel 'onednn-cpu-gomp'")
        try:
            self.lib = ctypes.CDLL(str(path))
            self.lib.dnnl_version.restype = ctypes.POINTER(_Version)
            version = self.lib.dnnl_version().contents
        except (OSError, AttributeError) as error:
            return Availability(False, f"cannot load oneDNN: {error}")
        if version.major != 3:
            return Availability(False, f"this binding is for oneDNN 3, not {version.major}.{version.minor}")
        try:
            self.engine = self._make("dnnl_engine_create", ctypes.c_int(CPU), ctypes.c_size_t(0))
            self.stream = self._make("dnnl_stream_create", self.engine, ctypes.c_uint(DEFAULT_STREAM))
        except Unsupported as error:
            return Availability(False, str(error))
        return Availability(True, "", f"{version.major}.{version.minor}.{version.patch}", "OpenMP runtime")

    def bind(
        self, a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, result: np.dtype[Any] | None = None
    ) -> Bound:
        """Make the primitive and its memory objects; the output is fresh memory unless `out` is given."""
        import numpy as np

        shape, dtype = (*a.shape[:-1], b.shape[-1]), result or a.dtype
        # Its integer products are quantised ones: nothing wraps.
        if not {a.dtype.name, dtype.name} <= set(TYPES) or (dtype.kind in "iu" and dtype.name != "int32"):
            raise Unsupported(f"oneDNN's matmul has no product of {a.dtype} that is {dtype}")
        first = np.empty(shape, dtype) if out is None else out
        views = [self._describe(x, TYPES[x.dtype.name]) for x in (a, b, first)]
        described = self._make(
            "dnnl_matmul_primitive_desc_create", self.engine, views[0], views[1], None, views[2], None
        )
        primitive = self._make("dnnl_primitive_create", described)
        memories = [
            self._make("dnnl_memory_create", view, self.engine, Handle(x.ctypes.data))
            for view, x in zip(views, (a, b, first), strict=True)
        ]
        pairs = zip((SRC, WEIGHTS, DST), memories, strict=True)
        arguments = (_Argument * 3)(*(_Argument(number, memory) for number, memory in pairs))
        execute, wait, aim = (
            self.lib.dnnl_primitive_execute, self.lib.dnnl_stream_wait, self.lib.dnnl_memory_set_data_handle
        )  # fmt: skip
        execute.argtypes = [Handle, Handle, ctypes.c_int, ctypes.POINTER(_Argument)]
        wait.argtypes, aim.argtypes = [Handle], [Handle, Handle]
        stream, target = self.stream, memories[2]
        # Python has no buffers of bfloat16.
        raw = np.dtype("uint16") if dtype.name == "bfloat16" else dtype

        def run() -> None:
            status = execute(primitive, stream, 3, arguments)
            if status or wait(stream):
                raise RuntimeError(f"oneDNN failed: {STATUS.get(status, status)}")

        # The operands are bound inside the memory objects: the two arguments are there for the common form.
        def fresh(a: Any, b: Any) -> np.ndarray:
            c = np.empty(shape, raw)
            aim(target, address(c))
            run()
            return c

        def reused(a: Any, b: Any) -> np.ndarray:
            run()
            return first

        def back(c: np.ndarray) -> np.ndarray:
            return c.view(dtype)

        made = Objects(self.lib)
        for kind, handles in (
            ("memory_desc", views), ("primitive_desc", [described]), ("primitive", [primitive]), ("memory", memories),
        ):  # fmt: skip
            made.add(kind, handles)
        keep = (a, b, first, arguments, made)
        return Bound(fresh if out is None else reused, None, None, back, keep)

    def _make(self, function: str, *arguments: Any) -> Handle:
        """Call one of the ``create`` functions, whose first argument receives the object."""
        made = Handle()
        status = self.lib[function](ctypes.byref(made), *arguments)
        if status:
            what = function.removeprefix("dnnl_").removesuffix("_create").replace("_", " ")
            raise Unsupported(f"oneDNN cannot make this {what}: {STATUS.get(status, status)}")
        return made

    def _describe(self, x: np.ndarray, kind: int) -> Handle:
        numbers = ctypes.c_int64 * x.ndim
        strides = numbers(*(step // x.itemsize for step in x.strides))
        return self._make(
            "dnnl_memory_desc_create_with_strides", ctypes.c_int(x.ndim), numbers(*x.shape), ctypes.c_int(kind), strides
        )


class Objects:
    """Owns the objects of one product or network: a run over many shapes must not pile them up."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.pairs: list[tuple[Any, Handle]] = []

    def add(self, kind: str, handles: list[Handle]) -> None:
        """Take over objects of a kind, as in ``dnnl_<kind>_destroy``."""
        self.pairs += [(self.lib[f"dnnl_{kind}_destroy"], handle) for handle in handles]

    def __del__(self) -> None:
        for destroy, made in reversed(self.pairs):
            destroy(made)
