"""The paired final: is a candidate really faster than the heuristic's configuration?

Single timings of a search do not answer that.  The best of fifty noisy numbers is partly
luck (up to 30 % where memory bandwidth decides), and the machine's speed drifts by more than
the differences in question.  So the finalists are timed again in turn with the
heuristic's configuration, which finds the one to be judged; then these two alone are
timed in fresh rounds.  A gain is confirmed when it is both certain (Wilcoxon's signed-rank
test, one-sided) and large enough to matter, and when the candidate is no slower at its best
either.  The last rule is for machines where something else runs: that slows a plan with many
threads down to the speed of one thread, in every round, and only its best times show what it
can do when it is left alone.  What is confirmed must be so in a second process too.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import wilcoxon  # type: ignore[import-untyped]

from ..problem import Config
from .measure import Runner

P_VALUE = 0.05

# Differences below 3 % are noise on the machines measured so far, even repeated.
GAIN = 0.03

# A quarter of the baseline's samples each side of the middle half; on a quiet machine they lie 1 to 3 % apart.
NOISY = 0.10

FINALISTS = 3
SEMIFINAL_ROUNDS = 7

# Nine pairs can give p = 0.002 and four not even 0.05; more than 41 would only find gains that are too small.
FINAL_ROUNDS = (9, 41)
FINAL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a final.

    `gain` is the median over the pairs of baseline / candidate - 1, `best_gain` the same of the two
    fastest samples, `spread` the middle half of the baseline's samples relative to their median.
    """

    config: Config
    seconds: float
    baseline_seconds: float
    gain: float
    best_gain: float
    p: float
    spread: float

    @property
    def confirmed(self) -> bool:
        """Whether the gain is certain and large enough for a record, and no artefact of a busy machine.

        The two medians must agree: a record keeps these, and where the machine changed its pace within the rounds
        the pairs of f32 1x64x1216 gained 5 % while the median of the candidate was 3 % above that of the baseline.
        """
        medians_agree = self.seconds < self.baseline_seconds
        return self.p < P_VALUE and self.gain >= GAIN and self.best_gain >= 0 and medians_agree

    @property
    def noisy(self) -> bool:
        """Whether the baseline's own times spread so far that small gains could not be seen."""
        return self.spread > NOISY


def judge(config: Config, candidate: Sequence[float], baseline: Sequence[float]) -> Verdict:
    """Compare paired samples.

    Examples
    --------
    >>> base = [1.00, 1.02, 0.99, 1.01, 1.00, 1.03, 0.98]
    >>> judge(Config(), [0.9 * s for s in base], base).confirmed
    True
    >>> judge(Config(), base[::-1], base).confirmed
    False
    """
    differences = [before - after for before, after in zip(baseline, candidate, strict=True)]
    # Without any difference there are no ranks, and the test would divide by zero.
    p = float(wilcoxon(differences, alternative="greater").pvalue) if any(differences) else 1.0
    gain = statistics.median(before / after for before, after in zip(baseline, candidate, strict=True)) - 1
    best_gain = min(baseline) / min(candidate) - 1
    low, middle, high = statistics.quantiles(baseline, n=4)
    return Verdict(config, statistics.median(candidate), middle, gain, best_gain, p, (high - low) / middle)


def final(runner: Runner, candidates: Sequence[Config], heuristic: Config) -> Verdict | None:
    """Find the best of the candidates, best first, and judge it; None when nothing could be timed."""
    finalists = [config for config in candidates if config != heuristic][:FINALISTS]
    if not finalists:
        # Nothing to judge, but the time before tuning and the machine's noise are still of interest.
        finalists = [heuristic]
    best = _semifinal(runner, finalists, heuristic) if len(finalists) > 1 else finalists[0]
    for config in dict.fromkeys([best, *finalists]):
        # The process that times a pair may die; then the next best is judged.
        verdict = _pair(runner, config, heuristic)
        if verdict is not None and verdict.confirmed:
            verdict = _anew(runner, verdict, heuristic)
        if verdict is not None:
            return verdict
    return None


def _anew(runner: Runner, verdict: Verdict, heuristic: Config) -> Verdict | None:
    """The poorer of a verdict and that of another process; None where that one died.

    Where its operands and its code lie is a process's own luck: f32 29x32x14 (135 ns) gained 6.5 % in one and lost 3 %
    in the next.
    """
    runner.close()
    other = _pair(runner, verdict.config, heuristic)
    return verdict if other is not None and other.gain > verdict.gain and other.confirmed else other


def _semifinal(runner: Runner, finalists: list[Config], heuristic: Config) -> Config:
    """The finalist that is fastest when all are timed in turn."""
    samples = runner.rounds([*finalists, heuristic], SEMIFINAL_ROUNDS)[:-1]
    medians = {c: statistics.median(s) for c, s in zip(finalists, samples, strict=True) if s}
    return min(medians, key=lambda config: medians[config], default=finalists[0])


def _pair(runner: Runner, config: Config, heuristic: Config) -> Verdict | None:
    first = runner.rounds([config, heuristic], 1)
    if not all(first):
        return None
    rounds = int(FINAL_SECONDS / (first[0][0] + first[1][0]))
    rounds = max(FINAL_ROUNDS[0], min(FINAL_ROUNDS[1], rounds))
    candidate, baseline = runner.rounds([config, heuristic], rounds)
    return judge(config, candidate, baseline) if candidate and baseline else None
