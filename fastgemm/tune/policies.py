"""Small networks in NumPy for strategies that learn by reward: Adam, actor and critic on one layer, a controller."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]


class Adam:
    """Adam (arXiv 1412.6980) over named arrays, which it changes in place.

    Examples
    --------
    >>> weights = {"x": np.array([3.0])}
    >>> adam = Adam(weights, rate=0.1)
    >>> for _ in range(200):
    ...     adam.step({"x": 2 * weights["x"]})  # of x * x
    >>> bool(abs(weights["x"][0]) < 0.1)
    True
    """

    def __init__(self, weights: Arrays, rate: float = 1e-3, decay: tuple[float, float] = (0.9, 0.999)) -> None:
        self.weights, self.rate, self.decay = weights, rate, decay
        self.steps = 0
        self._mean = {name: np.zeros_like(array) for name, array in weights.items()}
        self._square = {name: np.zeros_like(array) for name, array in weights.items()}

    def step(self, gradient: Arrays) -> None:
        """Go one step against the gradient."""
        self.steps += 1
        first, second = self.decay
        for name, array in self.weights.items():
            mean, square = self._mean[name], self._square[name]
            mean += (1 - first) * (gradient[name] - mean)
            square += (1 - second) * (gradient[name] ** 2 - square)
            high = mean / (1 - first**self.steps)
            array -= self.rate * high / (np.sqrt(square / (1 - second**self.steps)) + 1e-8)


class ActorCritic:
    """A policy over actions and the value of a state, on one hidden layer.

    Parameters
    ----------
    inputs, actions : int
        Numbers that describe a state, and actions to choose from.
    rng : numpy.random.Generator
        Of the first weights.
    hidden : int
        Width of the layer that both share.
    """

    def __init__(self, inputs: int, actions: int, rng: np.random.Generator, hidden: int = 128) -> None:
        def drawn(*shape: int) -> np.ndarray:
            bound = 1 / np.sqrt(shape[0])
            return rng.uniform(-bound, bound, shape)

        self.weights: Arrays = {
            "shared": drawn(inputs, hidden),
            "shared0": np.zeros(hidden),
            "actor": drawn(hidden, actions),
            "actor0": np.zeros(actions),
            "critic": drawn(hidden, 1),
            "critic0": np.zeros(1),
        }

    def forward(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the hidden layer, the policy and the value of every row."""
        w = self.weights
        hidden = np.maximum(states @ w["shared"] + w["shared0"], 0)
        logits = hidden @ w["actor"] + w["actor0"]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy = odds / odds.sum(axis=1, keepdims=True)
        return hidden, policy, (hidden @ w["critic"] + w["critic0"])[:, 0]

    def loss(self, states: np.ndarray, actions: np.ndarray, advantage: np.ndarray, rewards: np.ndarray) -> float:
        """Return the sum of ``-log policy * advantage + (reward - value)**2``; the advantage is a constant in it."""
        _, policy, value = self.forward(states)
        chosen = policy[np.arange(len(actions)), actions]
        return float(np.sum(-np.log(chosen) * advantage + (rewards - value) ** 2))

    def gradient(self, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> Arrays:
        """Gradient of `loss` at the advantage that the critic sees now: reward less value."""
        w = self.weights
        hidden, policy, value = self.forward(states)
        advantage = rewards - value
        # Descending makes an action that paid more than expected likelier.
        logits = policy * advantage[:, None]
        logits[np.arange(len(actions)), actions] -= advantage
        values = -2 * advantage[:, None]
        inner = (logits @ w["actor"].T + values @ w["critic"].T) * (hidden > 0)
        return {
            "shared": states.T @ inner,
            "shared0": inner.sum(axis=0),
            "actor": hidden.T @ logits,
            "actor0": logits.sum(axis=0),
            "critic": hidden.T @ values,
            "critic0": values.sum(axis=0),
        }


class Controller:
    """A recurrent network that chooses one coordinate after the other.

    Parameters
    ----------
    sizes : list of int
        Number of values of every coordinate.
    rng : numpy.random.Generator
        Of the first weights.
    hidden : int
        Recurrent units.
    """

    def __init__(self, sizes: list[int], rng: np.random.Generator, hidden: int = 32) -> None:
        self.sizes = sizes
        self.hidden = hidden
        self.weights: Arrays = {"again": rng.normal(0, 1 / np.sqrt(hidden), (hidden, hidden))}
        for at, size in enumerate(sizes):
            # What a coordinate's unit hears of itself, and what its choice says to the next.
            self.weights[f"own{at}"] = rng.normal(0, 0.1, hidden)
            self.weights[f"said{at}"] = rng.normal(0, 0.1, (size, hidden))
            self.weights[f"out{at}"] = rng.normal(0, 0.1, (hidden, size))
            self.weights[f"bias{at}"] = np.zeros(size)

    def _state(self, at: int, before: np.ndarray, choice: np.ndarray | None) -> np.ndarray:
        w = self.weights
        inner = before @ w["again"] + w[f"own{at}"]
        if choice is not None:
            inner = inner + w[f"said{at - 1}"][choice]
        found: np.ndarray = np.tanh(inner)
        return found

    def _policy(self, at: int, state: np.ndarray) -> np.ndarray:
        logits = state @ self.weights[f"out{at}"] + self.weights[f"bias{at}"]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy: np.ndarray = odds / odds.sum(axis=1, keepdims=True)
        return policy

    def draw(self, rng: np.random.Generator) -> list[int]:
        """Return an index for every coordinate."""
        state, choice = np.zeros((1, self.hidden)), None
        found: list[int] = []
        for at, size in enumerate(self.sizes):
            state = self._state(at, state, choice)
            found.append(int(rng.choice(size, p=self._policy(at, state)[0])))
            choice = np.array(found[-1:])
        return found

    def loss(self, choices: np.ndarray, advantage: np.ndarray) -> float:
        """Return the sum of ``-log policy * advantage`` over rows of choices."""
        state, total = np.zeros((len(choices), self.hidden)), 0.0
        for at in range(len(self.sizes)):
            state = self._state(at, state, choices[:, at - 1] if at else None)
            chosen = self._policy(at, state)[np.arange(len(choices)), choices[:, at]]
            total -= float(np.sum(np.log(chosen) * advantage))
        return total

    def gradient(self, choices: np.ndarray, advantage: np.ndarray) -> Arrays:
        """Gradient of `loss`, backwards through the coordinates."""
        w = self.weights
        states = [np.zeros((len(choices), self.hidden))]
        for at in range(len(self.sizes)):
            states.append(self._state(at, states[-1], choices[:, at - 1] if at else None))
        found = {name: np.zeros_like(array) for name, array in w.items()}
        later = np.zeros_like(states[0])
        for at in reversed(range(len(self.sizes))):
            before, state = states[at], states[at + 1]
            logits = self._policy(at, state) * advantage[:, None]
            logits[np.arange(len(choices)), choices[:, at]] -= advantage
            found[f"out{at}"] = state.T @ logits
            found[f"bias{at}"] = logits.sum(axis=0)
            inner = (logits @ w[f"out{at}"].T + later) * (1 - state**2)
            found[f"own{at}"] = inner.sum(axis=0)
            found["again"] += before.T @ inner
            if at:
                np.add.at(found[f"said{at - 1}"], choices[:, at - 1], inner)
            later = inner @ w["again"].T
        return found
