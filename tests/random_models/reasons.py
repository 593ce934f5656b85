"""Reasons that the library gives for not doing something, and whether they are true of the model at hand."""

import re
from collections.abc import Callable

import numpy as np

from tests.random_models import laws, oracles
from tests.random_models.models import RandomModel

OF_GROUPS_LAWS = ("Normal", "Bernoulli", "Poisson", "Binomial", "NegativeBinomial", "Gamma", "Exponential", "Weibull")
WITH_SHAPES = ("Normal", "NegativeBinomial", "Gamma", "Exponential", "Weibull")
MOST_BY_QUADRATURE, MOST_IN_CLOSED_FORM = 2, 12


def _law_of(model: RandomModel, name: str) -> str:
    return {**model.free, **model.observed}[name].law.name


def _values(model: RandomModel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return oracles.at_point(model, {name: rng.uniform(0.4, 0.9, one.shape) for name, one in model.free.items()})


def depends(model: RandomModel, name: str, function: Callable[[dict[str, np.ndarray]], np.ndarray]) -> bool:
    """Return whether a function of the values changes with a variable."""
    values = _values(model)
    other = {**values, name: values[name] + 0.01 * (1.0 + np.arange(np.size(values[name]))).reshape(values[name].shape)}
    return not np.array_equal(function(values), function(other))


def users_of(model: RandomModel, name: str) -> list[str]:
    """Return the other free variables and the potentials that depend on a variable."""
    free = [
        one
        for one in model.free
        if one not in (name, *model.discrete)
        and depends(model, name, lambda values, one=one: model.log_prior_of(one, values))
    ]
    terms = model.potentials.items()
    return free + [one for one, term in terms if depends(model, name, lambda v, term=term: np.asarray(term.value(v)))]


def reads_several(model: RandomModel, name: str) -> bool:
    """Return whether a row is computed from several groups of a variable along each of its axes."""
    values = _values(model)
    for axis, length in enumerate(model.free[name].shape):
        if length > 1:
            try:
                oracles.groups_of(model, values, {name: axis})
            except AssertionError:
                continue
            return False
    return True


def effects_to_integrate(model: RandomModel) -> list[str]:
    """Return variables that the documentation promises to integrate out with ``integrate=True``, if one is enough.

    These are normal, read by one group a row, with no other user, for rows of one observed variable of a supported law.
    """
    if len(model.observed) > 1 or model.discrete:
        return []
    [observed] = model.observed.values()
    if observed.law.name not in OF_GROUPS_LAWS or observed.law is laws.GAMMA_OF_MEAN:
        return []
    return [
        name
        for name, one in model.free.items()
        if one.law.name in ("Normal", "MvNormal")
        and one.shape
        and max(one.shape) > 1
        and not users_of(model, name)
        and depends(model, name, model.flat_rows)
        and not reads_several(model, name)
    ]


Rule = tuple[str, Callable[..., bool]]
# Names of classes in PyMC, where they differ from those that users call.
NAMES = {"NegBinomial": "NegativeBinomial", "Mixture": "ZeroInflatedPoisson", "WeibullBeta": "Weibull"}
OF_OPERATIONS = ("Weibull", "ZeroInflatedPoisson")  # in PyMC, no single operation with parameters
# Log densities that are not concave in the location: at y = 0, log(1 - psi + psi exp(-exp(eta))) bends upwards, and
# that of beta rows does so far from the observed fraction.
NOT_CONCAVE = ("StudentT", "ZeroInflatedPoisson", "Beta")


def _is_law(one: str, said: str) -> bool:
    return NAMES.get(said, said).lower() == one.lower()


def _lengths(model: RandomModel) -> list[int]:
    return [len(one.observed) for one in model.observed.values()]


def _entries(model: RandomModel) -> int:
    """Return the number of entries of the discrete variable of a model."""
    [name] = model.discrete
    return int(model.free[name].shape[0])


def _noises(model: RandomModel) -> int:
    """Return how many observed variables have a noise or a shape beside their predictor."""
    return sum(one.law.name in WITH_SHAPES for one in model.observed.values())


def _has_known_noise(model: RandomModel) -> bool:
    """Return whether normal rows have known numbers as the scale of their noise, or in it."""
    return any(name.startswith("noise") for name in model.data_names)


# Reasons not to integrate effects out, each named with the variables concerned.
OF_EFFECTS: list[Rule] = [
    (
        r"(\w+): its distribution is (\w+), but its entries must be normal",
        lambda model, name, law: _is_law(_law_of(model, name), law) and law != "Normal",
    ),
    (r"(\w+): the variable (\w+) depends on it", lambda model, name, other: other in users_of(model, name)),
    (r"(\w+): the potential (\w+) depends on it", lambda model, name, other: other in users_of(model, name)),
    (
        r"(\w+): a row depends on several of its entries, which are not independent given the rows",
        reads_several,
    ),
    (
        r"(\w+) \(\d+ values\) of \d+ entries summed out, and effects are not integrated out of rows with such a sum",
        lambda model, name: name in model.discrete,
    ),
    (r"no variable has an effect for each of several groups", lambda model: not effects_to_integrate(model)),
    (
        r"[\w ]+: the rows of (\w+): the distribution (\w+) is not supported: .*",
        lambda model, name, law: (
            _is_law(model.observed[name].law.name, law) and model.observed[name].law.name not in OF_GROUPS_LAWS
        ),
    ),
    (
        r"[\w ]+: the rows of (\w+): (\w+) rows are not log-concave in the predictor, so the effects of a group may .*",
        lambda model, name, law: (
            _is_law(model.observed[name].law.name, law) and model.observed[name].law.name in NOT_CONCAVE
        ),
    ),
    (
        r"[\w ]+: the rows of (\w+): Categorical rows have several predictors, .*",
        lambda model, name: model.observed[name].law.name == "Categorical",
    ),
    (
        r"[\w ]+: the shape of [\w ]*gamma[\w ]* rows \(alpha or sigma\) depends on the effects",
        lambda model: any(one.law is laws.GAMMA_OF_MEAN for one in model.observed.values()),
    ),
    (
        r"[\w ]+: the shape of [\w ]+ rows \(alpha or sigma\) differs from row to row",
        lambda model: len(model.observed) > 1 and (_noises(model) > 1 or _has_known_noise(model)),
    ),
    (
        r"[\w ]+: observed variables with the distributions ([\w ,]+) are not supported together: .*",
        lambda model, families: len(model.observed) > 1 and ("," in families or _noises(model) > 1),
    ),
    (
        r"[\w ]+: the scale of the noise is not one parameter times known numbers",
        lambda model: len(model.observed) > 1 and (_noises(model) > 1 or _has_known_noise(model)),
    ),
    (
        r"[\w ]+: the quadrature's error of (\S+) nats with \d+ nodes is above 0.01",
        lambda model, nats: not float(nats) <= 0.01,
    ),
    (
        r"[\w ]+: (\d+) effects of a group need at least \d+ nodes",
        lambda model, k: int(k) > MOST_BY_QUADRATURE,
    ),
    (
        r"[\w ]+: no parameters would remain to sample",
        lambda model: all(one.law.name in ("Normal", "MvNormal") and one.shape for one in model.free.values()),
    ),
    (r"at most two effects are supported", lambda model: True),
]
# Reasons why the rows of a model are not terms.
OF_ROWS: list[Rule] = [
    (
        r"with (\w+) \(\d+ values\) of (\d+) entries summed out, each entry is a row; then (.*)",
        lambda model, name, n, why: (
            name in model.discrete and model.free[name].shape == (int(n),) and _is_true(model, why, OF_ENTRIES)
        ),
    ),
    (
        r"the observed variables need the same number of rows, .*",
        lambda model: len(set(_lengths(model))) > 1,
    ),
    (
        r"latent variables with an entry for each of the (\d+) rows \(([\w, ]+)\) leave nothing to subsample.*",
        lambda model, n, names: all(int(n) in model.free[name].shape for name in names.split(", ")),
    ),
    (
        r"the array [\w ]+ has shape \((\d+), (\d+)\), and '[\w ]+' has (\d+) rows: it is ambiguous .*",
        lambda model, one, other, n: one == other == n and int(n) in _lengths(model),
    ),
    (
        r"the likelihood of '\w+' cannot be evaluated on some of its (\d+) rows alone\..* an entry for each row, .*",
        lambda model, n: (
            bool(model.discrete)
            and int(n) == _entries(model)
            and any(int(n) in one.shape for name, one in model.free.items() if name not in model.discrete)
        ),
    ),
    (
        r"the free variables \['(\w+)'\] are discrete, .* they cannot be summed out: (.*)\. Sample the model .*",
        lambda model, name, why: name in model.discrete and _is_true(model, f"{name}: {why}", OF_STATES),
    ),
]
# Reasons why the entries of a discrete variable that was summed out are not terms.
OF_ENTRIES: list[Rule] = [
    (
        r"the observed variables need the same number of rows, .*",
        lambda model: len({_entries(model), *_lengths(model)}) > 1,
    ),
    (
        r"latent variables with an entry for each of the (\d+) rows \(([\w, ]+)\) leave nothing to subsample.*",
        lambda model, n, names: (
            int(n) == _entries(model) and all(int(n) in model.free[name].shape for name in names.split(", "))
        ),
    ),
    (
        r"the array [\w ]+ has shape \((\d+), (\d+)\), and '[\w ]+' has (\d+) rows: it is ambiguous .*",
        lambda model, one, other, n: one == other == n and int(n) == _entries(model),
    ),
]
# Reasons not to sum discrete variables out.
OF_STATES: list[Rule] = [
    (
        r"(\w+): some rows of (\w+) depend on none of its entries",
        lambda model, name, rows: not _reached(model, name, rows).all(),
    ),
    (
        r"(\w+): the rows of (\w+) have the distribution (\w+), which PyMC builds from several operations, .*",
        lambda model, name, rows, law: _is_law(_law_of(model, rows), law) and _law_of(model, rows) in OF_OPERATIONS,
    ),
]


def _reached(model: RandomModel, name: str, rows: str) -> np.ndarray:
    values = _values(model)
    both = [model.rows({**values, name: np.full(len(values[name]), k)})[rows] for k in range(2)]
    return both[0] != both[1]


def _is_true(model: RandomModel, clause: str, rules: list[Rule]) -> bool:
    for pattern, holds in rules:
        if found := re.fullmatch(pattern, clause, re.DOTALL):
            return holds(model, *found.groups())
    return False


def check_refusal(model: RandomModel, plan: str, why: str) -> None:
    """Raise AssertionError if a reason is unknown here, or is not true of the model."""
    if plan == "integrated":
        start, end = "from_pymc: no effects can be integrated out: ", "; give integrate='auto'"
        if why.startswith(start):
            clauses = why.removeprefix(start).removesuffix(end).split("; ")
            false = [one for one in clauses if not _is_true(model, one, OF_EFFECTS)]
            assert not false, f"reasons that are not true of the model: {false}"
            promised = effects_to_integrate(model)
            excuses = "quadrature's error", "at most two effects", "no parameters would remain"
            excused = any(one in why for one in excuses)
            assert not promised or excused, f"effects of {promised} should be integrated out; the reason given: {why}"
            return
    assert _is_true(model, why.removeprefix("from_pymc: "), OF_ROWS), f"a reason that is not true of the model: {why}"
