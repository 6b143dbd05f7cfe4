"""compile(): a graph made into something that runs, from any number of threads at a time."""

from __future__ import annotations

import importlib
import os
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._outputs import fresh
from ..threads import allowed
from ..threads import threads as limited
from . import passes, reference
from .ir import Graph, GraphError
from .rules import Array
from .steps import Frame, Program

# Workspaces that a compiled graph keeps between calls.  More calls at a time get more, which are given back.
KEPT = 4
# NumPy's C_CONTIGUOUS and ALIGNED.
_WHOLE = 0x101


class _Ready(NamedTuple):
    """What a call takes at once, for `renew` may come in between: a program, and workspaces of its own."""

    program: Program
    free: deque[Frame]


class CompiledGraph:
    """A graph after its passes, with planned memory: what `compile` returns.

    Call it with an array for each input, in a mapping or by keywords.  Calls may come from several threads at a time:
    each has a workspace of its own, and at most ``workspaces`` of them are kept for later calls.

    Attributes
    ----------
    graph : Graph
        As it runs, after the passes.
    source : Graph
        As it was given.
    workspace_bytes : int
        Memory that one call uses beside its inputs, outputs and constants.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm import graph
    >>> build = graph.Builder("two")
    >>> x = build.input("x", (2, 3), "float32")
    >>> build.output(build.relu(x @ np.ones((3, 2), "f4")), "y")
    >>> build.output(x * 2, "z")
    >>> compiled = graph.compile(build.graph())
    >>> compiled
    <CompiledGraph 'two': 2 steps, 0 bytes a call>
    >>> {name: made.shape for name, made in compiled(x=np.ones((2, 3), "f4")).items()}
    {'y': (2, 2), 'z': (2, 3)}
    """

    def __init__(self, source: Graph, threads: int | None, fusion: str, workspaces: int) -> None:
        self.source, self.threads, self.fusion = source, threads, fusion
        self._log: list[passes.Applied] = []
        self.graph = passes.apply(source, fusion, self._log, None if threads is None else allowed(threads))
        self._workspaces = workspaces
        self._ready = self._lowered()
        self.workspace_bytes = self._program.plan.total
        self._wanted, self._made = self._kinds(self.graph.inputs), self._kinds(self.graph.outputs)
        self._handed_on = [name for name in self.graph.outputs if self.graph.producer(name) is None]

    def _kinds(self, names: Sequence[str]) -> list[tuple[str, tuple[int, ...], Any]]:
        return [(name, self.graph.values[name].shape, self.graph.values[name].dtype) for name in names]

    def _lowered(self) -> _Ready:
        # A deque's methods are atomic: there is no lock that a fork could find taken.  When it is full the oldest falls
        # out.
        return _Ready(Program(self.graph), deque(maxlen=self._workspaces))

    @property
    def _program(self) -> Program:
        return self._ready.program

    def renew(self) -> None:
        """Lower the graph anew: its products ask the tuning database again, and weights are packed again.

        Calls that are under way end as they began.
        """
        self._ready = self._lowered()

    def again(self) -> CompiledGraph:
        """Return the same graph compiled anew."""
        return CompiledGraph(self.source, self.threads, self.fusion, self._workspaces)

    def tune(
        self,
        *,
        seconds: float | None = None,
        trials: int | None = None,
        strategy: str | None = None,
        db: str | os.PathLike[str] | None = None,
        quiet: bool = True,
    ) -> Any:
        """Tune the graph's products in place, with what follows them, and route them by what was found.

        Each is measured by itself, as the graph runs it: weights packed, rows of a chain's item, activation included.
        Then the graph is timed in turn with the new records and without; where it comes out slower they are taken
        out again.  It takes the extra ``fastgemm[tune]``; no call of the library may run meanwhile.

        Parameters
        ----------
        seconds : float, optional
            Time for all products together; until the strategy ends by default.
        trials : int, optional
            Configurations to measure for each.
        strategy : str, optional
            As of ``python -m fastgemm.tune``.
        db : path, optional
            The database file; ``FASTGEMM_DB`` or your data folder by default.  Another one that this process does not
            read is written, and changes nothing here.
        quiet : bool
            Print only the table at the end, and what went wrong.

        Returns
        -------
        fastgemm.tune.graphs.Tuned
            Its attributes: problems, records, before, after (seconds of a call), gain, kept.

        Raises
        ------
        ValueError
            For seconds or trials that are not above zero, or a strategy that there is not.
        RuntimeError
            If results cannot be kept, or nothing can be tuned here; those that were finished before are kept.
        ModuleNotFoundError
            Without the extra.

        Examples
        --------
        >>> found = compiled.tune(seconds=60)      # doctest: +SKIP
        >>> found.gain                             # doctest: +SKIP
        1.04
        """
        # Nothing imports the tuner, which needs packages of others, before somebody asks for it.
        command = importlib.import_module("fastgemm.tune.__main__")
        return command.tune_graph(self, seconds, trials, strategy, db, quiet)

    def __call__(self, inputs: Mapping[str, ArrayLike] | None = None, /, *, out: Any = None, **named: ArrayLike) -> Any:
        """Compute the outputs.

        Parameters
        ----------
        inputs : mapping, optional
            An array for each input of the graph; or give them by keywords.
        out : ndarray or mapping, optional
            Where the output goes, or several by their names, each in memory of its own.

        Returns
        -------
        ndarray or dict
            The output; where the graph has several, each by its name.

        Raises
        ------
        GraphError
            If an input is missing or unknown, an array does not have the declared shape and type, or two of `out` share
            memory.
        """
        given = inputs if type(inputs) is dict and not named else {**(inputs or {}), **named}
        made = self.run(given, None if out is None else self._outputs_given(out))
        return made.popitem()[1] if len(made) == 1 else made

    def run(self, inputs: Mapping[str, ArrayLike], out: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Compute the outputs and return them by their names; as calling it otherwise."""
        read = self._read(inputs)
        asked = out or {}
        if asked and (unknown := sorted(set(asked) - set(self.graph.outputs))):
            raise GraphError(f"the graph has no output {unknown[0]!r}; its outputs are {', '.join(self.graph.outputs)}")
        written = {
            name: self._output(name, asked.get(name), read, asked) if asked else fresh(shape, dtype)
            for name, shape, dtype in self._made
        }
        for one, other in combinations(asked, 2):
            if np.shares_memory(asked[one], asked[other]):
                raise GraphError(f"out for {one!r} and for {other!r} share memory")
        program, free = self._ready
        arrays = read.copy()
        for root, name in program.made.items():
            arrays[root] = written[name]
        try:
            frame = free.pop()
        except IndexError:
            frame = program.frame()
        filled = self._run(program, frame, arrays)
        for name in self._handed_on:
            np.copyto(written[name], filled[program.numbers[name]])
        free.append(frame)
        for name, array in asked.items():
            if written[name] is not array:
                np.copyto(array, written[name])
                written[name] = array
        return written

    def _read(self, inputs: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Return the inputs as arrays in C order, checked against what the graph declares."""
        # What is as it should be is seen in 0.3 us; `given` finds the words for what is not.
        read: dict[str, Array] = {}
        for name, shape, dtype in self._wanted:
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.dtype is not dtype or array.shape != shape:
                break
            if array.flags.num & _WHOLE != _WHOLE:
                break
            read[name] = array
        if len(read) == len(self._wanted) == len(inputs):
            return read
        given = reference.given(self.graph, inputs)
        return {name: np.require(array, None, ["C", "A"]) for name, array in given.items()}

    def _run(self, program: Program, frame: Frame, arrays: Mapping[str, Array]) -> list[Array]:
        # Both contexts together cost as much as all the rest of a call of a small network: only where they are needed.
        if self.threads is not None:
            with limited(self.threads):
                return self._unwarned(program, frame, arrays)
        return self._unwarned(program, frame, arrays)

    def _unwarned(self, program: Program, frame: Frame, arrays: Mapping[str, Array]) -> list[Array]:
        if program.quiet:
            return program.run(frame, arrays)
        with np.errstate(all="ignore"):
            return program.run(frame, arrays)

    def explain(self) -> str:
        """Return what runs: the passes and what each changed, the steps, and the buffers."""
        from .explain import explain

        return explain(self.graph, self._program, self._log)

    def __repr__(self) -> str:
        name = self.source.name or "graph"
        return f"<CompiledGraph {name!r}: {len(self._program.steps)} steps, {self.workspace_bytes} bytes a call>"

    def _outputs_given(self, out: Any) -> Mapping[str, Array] | None:
        if out is None or isinstance(out, Mapping):
            return out
        if len(self.graph.outputs) != 1:
            raise GraphError(f"out must name its arrays: the graph has outputs {', '.join(self.graph.outputs)}")
        return {self.graph.outputs[0]: out}

    def _output(self, name: str, given: Any, read: Mapping[str, Array], asked: Mapping[str, Array]) -> Array:
        """Return the array that the program fills: the caller's where nothing else needs its memory meanwhile."""
        value = self.graph.values[name]
        if given is None:
            return fresh(value.shape, value.dtype)
        if not isinstance(given, np.ndarray):
            raise TypeError(f"out for {name!r} must be an ndarray, not {type(given).__name__}")
        if given.dtype != value.dtype or given.shape != value.shape:
            raise GraphError(f"out for {name!r} is {given.dtype} {given.shape}, not {value.dtype} {value.shape}")
        if not given.flags.writeable:
            raise ValueError(f"out for {name!r} is read-only")
        others = [*read.values(), *(array for key, array in asked.items() if key != name)]
        shared = any(np.may_share_memory(given, other) for other in others)
        return given if given.flags.carray and not shared else fresh(value.shape, value.dtype)


def compile(graph: Graph, *, threads: int | None = None, fusion: str = "full", workspaces: int = KEPT) -> CompiledGraph:
    """Compile a graph.

    Parameters
    ----------
    graph : Graph
    threads : int, optional
        Threads of a call; by default what `fastgemm.get_num_threads` says when it is made.
    fusion : {"full", "fine", "none"}
        ``"none"`` runs every operation by itself; ``"fine"`` does the passes on single operations and fuses what
        follows a product into it; ``"full"`` also runs consecutive products piece by piece, so that what
        lies between them stays in the cache.
    workspaces : int
        How many workspaces are kept between calls, for calls from several threads.

    Returns
    -------
    CompiledGraph

    Raises
    ------
    ValueError
        If there is no such fusion.

    Notes
    -----
    In float32 and float64 ``"full"`` computes what ``"fine"`` does, piece by piece.  Short sums by constant matrices,
    and what follows them, have the same bits.  Others may not, for what a kernel does can depend on how many rows it
    has: sums of some hundred numbers are cut at other places; products by what is not constant (in attention) may be
    another kernel's, most of all those of one column; and the rows of a float32 softmax that are left over from fours
    may round otherwise where a mask follows a factor that is no power of two.  Attention of long texts (more than 1024
    keys beside an L2 of 1 MiB) meets its keys in parts (`graph.attention`), each a sum of its own.  What is made
    one chain, and of how many rows at a time, follows from the threads: bits do too, but of what is compiled and called
    inside `fastgemm.deterministic`, where keys stay together as well.

    ``"none"`` has the bits of ``"fine"`` where a sum is not cut (short sums; packed weights may be cut elsewhere than
    others), no factor was moved and no division taken over as one (`graph.passes.scales` and `graph.passes.epilogues`
    say which are), and no operation was written out as several (`graph.passes.recognise`).  Halves are rounded less
    often the more is fused.

    Weights are kept twice, as they were given and as kernels read them.

    Examples
    --------
    >>> import numpy as np
    >>> from fastgemm import graph
    >>> build = graph.Builder("layer")
    >>> x = build.input("x", (2, 3), "float32")
    >>> build.output(build.relu(x @ np.ones((3, 4), "f4") - 5.0), "y")
    >>> compiled = graph.compile(build.graph())
    >>> compiled(x=np.arange(6, dtype="f4").reshape(2, 3))
    array([[0., 0., 0., 0.],
           [7., 7., 7., 7.]], dtype=float32)
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"compile takes a Graph, not {type(graph).__name__}")
    if threads is not None:
        allowed(threads)
    if isinstance(workspaces, bool) or not isinstance(workspaces, int) or workspaces < 1:
        raise ValueError(f"workspaces must be at least 1, not {workspaces!r}")
    return CompiledGraph(graph, threads, fusion, workspaces)
