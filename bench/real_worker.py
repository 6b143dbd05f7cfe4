"""The process that holds one library and times a model from a file: `worker.py` with a file in place of a product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import peers
import worker
from peers import Availability, Bound, Library, as_is


class Model(Library):
    """A library that computes a model; subclasses say how."""

    def model(self, path: Path, x: np.ndarray) -> Bound:
        """Return the bound model: ``call(None, None)`` computes it."""
        raise NotImplementedError


class FastGemmModel(Model):
    """`fastgemm.graph`: read from the file and compiled."""

    name = "fastgemm"
    summary = "graph.compile(graph.from_onnx(file))"
    available = peers.FastGemm.available

    def model(self, path: Path, x: np.ndarray) -> Bound:
        """The batch is the input's."""
        from fastgemm import graph

        ready = graph.compile(graph.from_onnx(path, batch=len(x)))
        return Bound(lambda a, b: ready(x=x), None, None, as_is)


class OnnxRuntime(Model):
    """ONNX Runtime on the CPU."""

    name = "onnxruntime"
    summary = "ONNX Runtime's CPU provider, all optimisations"

    def available(self, threads: int) -> Availability:
        """Import it."""
        try:
            import onnxruntime
        except ImportError as error:
            return Availability(False, f"cannot import onnxruntime: {error}")
        self.threads = threads
        return Availability(True, "", onnxruntime.__version__, "")

    def model(self, path: Path, x: np.ndarray) -> Bound:
        """A session of its own."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return Bound(lambda a, b: session.run(None, {"x": x})[0], None, None, as_is)


class TorchModel(Model):
    """PyTorch eager: the module that the file was exported from."""

    name = "torch"
    summary = "the module of bench/export_onnx.py, eager"
    available = peers.Torch.available

    def _module(self, path: Path) -> Any:
        import export_onnx
        import torch

        found = export_onnx.networks(path.stem.endswith("_small"))
        if path.stem not in found:
            raise peers.Unsupported(f"no module of that name; there are {', '.join(found)}")
        torch.backends.mha.set_fastpath_enabled(True)
        return found[path.stem][0]

    def model(self, path: Path, x: np.ndarray) -> Bound:
        """With PyTorch's own shortcut for inference."""
        import torch

        module, tensor = self._module(path), torch.from_numpy(x)
        return Bound(lambda a, b: module(tensor), None, None, lambda made: made.numpy())


class TorchCompiledModel(TorchModel):
    """PyTorch's compiler, weights frozen."""

    name = "torch-compile"
    summary = "the same through torch.compile, weights frozen"

    def model(self, path: Path, x: np.ndarray) -> Bound:
        """Compiled here, not in a pool of processes that would outlive this one."""
        import os

        import torch

        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        import torch._inductor.config as settings

        settings.freezing = True
        module, tensor = torch.compile(self._module(path)), torch.from_numpy(x)
        return Bound(lambda a, b: module(tensor), None, None, lambda made: made.numpy())


LIBRARIES: dict[str, type[Model]] = {
    cls.name: cls for cls in (FastGemmModel, OnnxRuntime, TorchModel, TorchCompiledModel)
}


class Session(worker.Session):
    """A library and the model that it is timing."""

    libraries = staticmethod(lambda: LIBRARIES)

    def prepare_least(self) -> None:
        """No file computes next to nothing: a call of a binding that does nothing."""
        self.bound, self.loops = [Bound(lambda a, b: None, None, None, as_is)], 1000

    def prepare(self, path: str, shape: list[int], sample: float) -> dict[str, Any]:  # type: ignore[override]
        """Bind a model; return how many calls make a sample, and some numbers of its result."""
        self.drop()
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        try:
            bound = self.peer.model(Path(path), x)
            made = bound.array(bound.call(None, None))
        except (peers.Unsupported, ImportError, ValueError, RuntimeError) as error:
            return {"unsupported": (str(error).strip() or type(error).__name__).splitlines()[0]}
        self.bound, self.loops = [bound], 1
        flat = np.asarray(made, np.float64).reshape(-1)
        loops = self._calibrate(sample, worker.CHUNKS * sample)
        return {"loops": loops, "values": flat[:: max(1, flat.size // 1000)].tolist()}


if __name__ == "__main__":
    worker.serve(Session)
