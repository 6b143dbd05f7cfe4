"""The process that holds one library and times networks: `worker.py` with networks in place of products."""

from __future__ import annotations

import time
from typing import Any

import peers
import worker
import workload_cases
import workload_data
import workload_peers


class Session(worker.Session):
    """A library and the network that it is timing."""

    libraries = staticmethod(workload_peers.libraries)

    def peak(self, dtype: str) -> dict[str, Any]:
        """Operations a second of the multiply-adds that products of a dtype are made of, on all threads at once."""
        import peak

        from fastgemm import kernels, registry

        tier = kernels.active_isa()
        assert tier is not None
        row = registry.dtype("i8_i32" if dtype == "int8" else dtype)
        return {"rate": peak.rate(row.name, tier.name, self.threads, family=kernels.best_family(row, tier))}

    def prepare_least(self) -> None:
        """Prepare a network that computes next to nothing."""
        self.prepare(workload_cases.Workload("tiny", "mlp", (1, 1, 1, 1), 1, "float32").to_dict(), 0.001, 10.0)

    def prepare(self, case: dict[str, Any], sample: float, budget: float) -> dict[str, Any]:  # type: ignore[override]
        """Bind a network, check its result; return how many calls make a sample, or ``unsupported``."""
        self.drop()
        work = workload_cases.from_dict(case)
        data = workload_data.operands(work)
        try:
            bound = self.peer.network(work, data)
            result = bound.array(bound.call(None, None))
        except (peers.Unsupported, ImportError, TypeError, RuntimeError, NotImplementedError) as error:
            return {"unsupported": (str(error).strip() or type(error).__name__).splitlines()[0]}
        wrong = workload_data.check(work, data, result)
        if wrong:
            return {"unsupported": f"wrong answer: {wrong}"}
        self.bound, self.loops = [bound], 1
        bits = workload_data.digest(result)
        start = time.perf_counter()
        bound.call(None, None)
        spent = time.perf_counter() - start
        if spent > budget:
            return {"loops": 1, "seconds": spent, "bits": bits}
        loops = self._calibrate(sample, worker.SAMPLE_SHARE * budget)
        return {"loops": loops, "seconds": None, "bits": bits, "notes": bound.notes}


if __name__ == "__main__":
    worker.serve(Session)
