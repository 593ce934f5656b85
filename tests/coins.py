"""Every path of a random kernel: exact laws and transition probabilities of the code that runs.

A kernel written for a `numpy.random.Generator` is run, as plain Python, with a generator whose numbers are not drawn
but stand for intervals. Each comparison with a number, and each whole part, cuts the interval into events of known
probabilities, and the kernel is run again until every path has been walked. Uniform numbers may be multiplied, shifted,
compared and cut to their whole part; exponential numbers may be divided by a rate, compared with a whole number by
``>=``, and then cut to their whole part.
"""

import itertools
import math


def outcomes(run):
    """Yield (probability, result) of ``run(rng)`` for every path of its random choices."""
    waiting = [[]]
    while waiting:
        path = Path(waiting.pop())
        result = run(path)
        waiting += path.open
        yield path.probability, result


def law(run):
    """Return {result: probability} of ``run(rng)``, whose results are hashable."""
    found = {}
    for probability, result in outcomes(run):
        found[result] = found.get(result, 0.0) + probability
    return found


class Path:
    """One run: stands in for a generator, follows the choices given, then takes the first that is possible.

    `open` holds the paths that branch off from this one and are still to be run.
    """

    def __init__(self, choices):
        self.given, self.taken, self.open, self.probability = choices, [], [], 1.0

    def random(self):
        return Uniform(self)

    def standard_exponential(self):
        return Exponential(self)

    def choose(self, probabilities):
        """Return which of some exclusive events happens in this run."""
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

    __ge__ = __gt__

    def __int__(self):
        return self._cut([k / self.scale for k in range(round(self.scale) + 1)])

    def _cut(self, bounds):
        low, high = self.interval
        pieces = [(max(low, a), min(high, b)) for a, b in itertools.pairwise(bounds)]
        chosen = self.path.choose([max(0.0, b - a) / (high - low) for a, b in pieces])
        self.interval[:] = pieces[chosen]
        return chosen


class Exponential:
    """An exponential number divided by a rate; a kernel may ask if it is at least an integer m, else its whole part."""

    def __init__(self, path, rate=1.0):
        self.path, self.rate, self.most = path, rate, None

    def __truediv__(self, rate):
        return Exponential(self.path, rate)

    def __ge__(self, m):
        beyond = math.exp(-self.rate * m) if m else 1.0
        self.most = m
        return self.path.choose((beyond, 1.0 - beyond)) == 0

    def __int__(self):
        stay = math.exp(-self.rate)
        weights = [stay**j * (1.0 - stay) for j in range(self.most)]
        return self.path.choose([weight / sum(weights) for weight in weights])
