"""Random kernels under every outcome of their coins: exact transition probabilities of the code that runs.

A kernel written for a `numpy.random.Generator` is run, as plain Python, with a generator whose numbers are not drawn:
each comparison of such a number splits the run in two, of known probabilities.
"""

import math
import types

from approxmcmc.engine import bind


def outcomes(run):
    """Yield (probability, result) of ``run(rng)`` for every way in which its comparisons can turn out."""
    script = []
    while True:
        rng = _Coins(script)
        result = run(rng)
        yield rng.probability, result
        while script and script[-1][0] + 1 == script[-1][1]:
            script.pop()
        if not script:
            return
        script[-1] = (script[-1][0] + 1, script[-1][1])


def plain_module(module, right="", wrong=""):
    """Return a module's functions as plain Python, with one piece of the source replaced."""
    with open(module.__file__, encoding="utf-8") as file:
        source = file.read()
    assert source.count(right) == 1 or not right, f"{module.__name__} no longer holds {right!r} once: mend the bug"
    plain = types.ModuleType(f"plain_{module.__name__.rpartition('.')[2]}")
    compiled = bind.compiled
    bind.compiled = lambda function: function
    try:
        exec(source.replace(right, wrong) if right else source, plain.__dict__)
    finally:
        bind.compiled = compiled
    return plain


class _Coins:
    """A generator that follows a script, and extends it where it ends."""

    def __init__(self, script):
        self.script, self.place, self.probability = script, 0, 1.0

    def choose(self, probabilities):
        """Return which of some exclusive events happens in this run."""
        possible = [k for k, p in enumerate(probabilities) if p > 0.0]
        if self.place == len(self.script):
            self.script.append((0, len(possible)))
        chosen = possible[self.script[self.place][0]]
        self.place += 1
        self.probability *= probabilities[chosen]
        return chosen

    def random(self):
        return _Uniform(self)

    def standard_exponential(self):
        return _Exponential(self)


class _Uniform:
    """A number of which it is known that it lies in [low, high)."""

    def __init__(self, coins):
        self.coins, self.low, self.high = coins, 0.0, 1.0

    def __lt__(self, p):
        if p <= self.low or p >= self.high:
            return p >= self.high
        share = (p - self.low) / (self.high - self.low)
        below = self.coins.choose((share, 1.0 - share)) == 0
        self.low, self.high = (self.low, p) if below else (p, self.high)
        return below

    def __ge__(self, p):
        return not self < p

    def __mul__(self, n):
        return _Index(self.coins, n)


class _Index:
    """n times a uniform number, of which only the whole part is asked for."""

    def __init__(self, coins, n):
        self.coins, self.n = coins, n

    def __int__(self):
        return self.coins.choose([1.0 / self.n] * self.n)


class _Exponential:
    """An exponential number over a rate: is it at least a whole number m, and if not, what is its whole part?"""

    def __init__(self, coins, rate=1.0):
        self.coins, self.rate, self.most = coins, rate, None

    def __truediv__(self, rate):
        return _Exponential(self.coins, rate)

    def __ge__(self, m):
        beyond = math.exp(-self.rate * m) if m else 1.0
        self.most = m
        return self.coins.choose((beyond, 1.0 - beyond)) == 0

    def __int__(self):
        stay = math.exp(-self.rate)
        weights = [stay**j * (1.0 - stay) if j else 1.0 - stay for j in range(self.most)]
        return self.coins.choose([weight / sum(weights) for weight in weights])
