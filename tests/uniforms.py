"""The exact law of a program that draws uniforms: every way that its comparisons can go, with its probability.

A generator hands out uniforms that stand for intervals. Whenever the program compares one with a number, or takes the
whole part of a multiple, the interval is cut; the run is repeated until every path has been walked. The program must
treat uniforms by multiplication, subtraction, ``<``, ``>`` and ``int`` alone.
"""

import itertools
import math


class Uniform:
    """scale * u + shift, where u is uniform on an interval that `path` narrows."""

    def __init__(self, path, interval=None, scale=1.0, shift=0.0):
        self.path, self.interval = path, [0.0, 1.0] if interval is None else interval
        self.scale, self.shift = float(scale), float(shift)

    def __mul__(self, factor):
        return Uniform(self.path, self.interval, self.scale * factor, self.shift * factor)

    __rmul__ = __mul__

    def __sub__(self, number):
        return Uniform(self.path, self.interval, self.scale, self.shift - number)

    def __lt__(self, number):
        return self._cut([-math.inf, (number - self.shift) / self.scale, math.inf]) == 0

    def __gt__(self, number):
        return not self < number

    def __int__(self):
        return self._cut([k / self.scale for k in range(round(self.scale) + 1)])

    def _cut(self, bounds):
        low, high = self.interval
        pieces = [(max(low, a), min(high, b)) for a, b in itertools.pairwise(bounds)]
        chosen = self.path.choose([max(0.0, b - a) / (high - low) for a, b in pieces])
        self.interval[:] = pieces[chosen]
        return chosen


class Path:
    """One run: follows the choices that it is given, then takes the first that is possible."""

    def __init__(self, choices):
        self.given, self.taken, self.open, self.probability = choices, [], [], 1.0

    def random(self):
        return Uniform(self)

    def choose(self, probabilities):
        possible = [k for k, p in enumerate(probabilities) if p > 0.0]
        place = len(self.taken)
        if place < len(self.given):
            chosen = self.given[place]
        else:
            chosen = possible[0]
            self.open += [[*self.taken, other] for other in possible[1:]]
        self.taken.append(chosen)
        self.probability *= probabilities[chosen]
        return chosen


def law(program):
    """Return {outcome: probability} of ``program(rng)``, whose outcomes are hashable."""
    found, waiting = {}, [[]]
    while waiting:
        path = Path(waiting.pop())
        outcome = program(path)
        waiting += path.open
        found[outcome] = found.get(outcome, 0.0) + path.probability
    return found
