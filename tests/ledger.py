"""The ledger of draws: what every pairing of a target and a sampler draws from a fixed seed, stored as digests.

`tests/ledger.toml` has a table for each target, and in it an entry for each sampler of `METHODS`:

- three digests, of the draws rounded to `DECIMALS`, of all counts, and of the bits of the draws. The first two are the
  same on every machine, compiled and uncompiled. Bits depend on processor and compiler: they are compared on a machine
  like the recorded one only, and stored twice if the compiler reorders sums;
- or the first words of the error that refuses the pairing.

So the file shows in a diff which draws a change of the code changes, and which pairings it adds or loses. Write the
entries of this mode, compiled or not, again with::

    python -m tests.ledger [TARGET ...]
    NUMBA_DISABLE_JIT=1 python -m tests.ledger [TARGET ...]
"""

import hashlib
import json
import platform
import sys
import tomllib
import warnings
from pathlib import Path

import numba
import numpy as np
import scipy
from llvmlite import binding
from numba import config

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, DiscreteTarget
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.samplers.pdmp.split import rows_of
from tests.examples import TARGETS as PUBLIC

PATH = Path(__file__).with_suffix(".toml")
MODE = "plain" if config.DISABLE_JIT else "compiled"
SEED = 20140621
DRAWS = 200
DECIMALS = 7  # of draws; rounding errors of 1e-13 cross an edge of this grid in about one of 10^6 numbers
WORDS = 10  # kept of a refusal

N = 30
_rng = np.random.default_rng(20)
X = np.column_stack([np.ones(N), _rng.normal(size=N)])
CLASSES = (_rng.random(N) < 1.0 / (1.0 + np.exp(-X[:, 1]))).astype(float)
NUMBERS = X @ [0.5, -0.8] + _rng.normal(size=N)
COUNTS = _rng.poisson(np.exp(0.5 + 0.4 * X[:, 1])).astype(float)
GROUPS = np.arange(N) % 5
TRIALS = 1.0 + np.arange(N) % 4
EXPOSURE = 0.5 + _rng.random(N)


def log_poisson(eta, y):
    """Return the log density of a count without log y!."""
    return y * eta - np.exp(eta)


def derivatives_of_log_poisson(eta, y):
    """Return its first two derivatives in eta."""
    mean = np.exp(eta)
    return y - mean, -mean


def third_derivative_of_log_poisson(eta, y, reach):
    """Return the bound of its third derivative."""
    return np.exp(eta + reach)


def log_normal(mean, log_scale, y):
    """Return the log density of a normal response with a predictor for its log scale."""
    return -log_scale - 0.5 * ((y - mean) * np.exp(-log_scale)) ** 2


def table():
    """Return a table with a column of numbers and one of labels."""
    import pandas as pd

    return pd.DataFrame({"age": X[:, 1], "town": np.array(["Bern", "Oslo", "Rome"])[np.arange(N) % 3]})


def bounded_poisson():
    """Return a Poisson regression with derivatives and a bound."""
    return amc.targets.GLMTarget(
        log_poisson,
        X,
        COUNTS,
        derivatives_eta=derivatives_of_log_poisson,
        third_derivative_bound=third_derivative_of_log_poisson,
    )


def two_predictors():
    """Return a model of a mean with codes and an offset, and of a log scale, with derivatives by differences."""
    predictors = {"mean": {"beta": X, "effect": GROUPS}, "log_scale": {"log_sigma": 1.0}}
    return amc.targets.PredictorTarget(log_normal, predictors, NUMBERS, offsets={"mean": 0.1 * GROUPS})


def equal_rows():
    """Return a logistic regression on few distinct rows, each one term."""
    return amc.targets.compressed(amc.targets.LogisticRegression(np.round(np.repeat(X[:6], 5, axis=0), 1), CLASSES))


def equal_predictors():
    """Return a Poisson model of codes on few distinct rows, each one term."""
    plain = amc.targets.PredictorTarget(log_poisson, {"eta": {"effect": GROUPS}}, np.minimum(COUNTS, 1.0))
    return amc.targets.compressed(plain)


def pymc_model(rows, integrate=False):
    """Return a target from a PyMC model; `rows` adds the observed variables, given PyMC and X @ beta."""
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        rows(pm, X @ beta)
    return amc.from_pymc(model, integrate=integrate)


def effect(pm):
    """Add the effects of the groups to a PyMC model, and return that of each row."""
    scale = pm.HalfNormal("scale", 1.0)
    return pm.Normal("effect", 0.0, scale, shape=5)[GROUPS]


def two_families(pm, eta):
    """Add counts and numbers that share the effects of groups."""
    shared = effect(pm)
    pm.Poisson("count", pm.math.exp(eta + shared), observed=COUNTS)
    pm.Normal("number", eta + shared, 1.0, observed=NUMBERS)


def of_groups(family, y, **settings):
    """Return a target with integrated effects of groups."""
    return amc.targets.GroupedTarget(X, y, GROUPS, family=family, n_nodes=5, **settings)


FURTHER = {
    "GLMTarget, Poisson with derivatives and bound": bounded_poisson,
    "GLMTarget, table": lambda: amc.targets.GLMTarget(log_poisson, table(), COUNTS, intercept=True),
    "LogisticRegression, float32": lambda: amc.targets.LogisticRegression(X.astype(np.float32), CLASSES),
    "LogisticRegression, table": lambda: amc.targets.LogisticRegression(table(), CLASSES, intercept=True),
    "LogisticRegression, equal rows": equal_rows,
    "LogisticRegression, weights": lambda: amc.targets.LogisticRegression(X, CLASSES, weights=TRIALS),
    "BinomialRegression, weights": lambda: amc.targets.BinomialRegression(
        X, np.minimum(COUNTS, TRIALS), TRIALS, weights=EXPOSURE
    ),
    "NegativeBinomialRegression, weights": lambda: amc.targets.NegativeBinomialRegression(X, COUNTS, weights=EXPOSURE),
    "SoftmaxRegression, weights": lambda: amc.targets.SoftmaxRegression(X, GROUPS % 3, weights=EXPOSURE),
    "RobustRegression, table": lambda: amc.targets.RobustRegression(table(), NUMBERS, intercept=True),
    "SoftmaxRegression, three classes": lambda: amc.targets.SoftmaxRegression(X, GROUPS % 3),
    "SoftmaxRegression, table": lambda: amc.targets.SoftmaxRegression(table(), GROUPS % 3, intercept=True),
    "OrderedRegression, table": lambda: amc.targets.OrderedRegression(table(), np.arange(N) % 4),
    "LinearRegression, unknown scale": lambda: amc.targets.LinearRegression(X, NUMBERS),
    "LinearRegression, single rows": lambda: amc.targets.LinearRegression(X, NUMBERS).plain,
    "LinearRegression, table": lambda: amc.targets.LinearRegression(table(), NUMBERS, intercept=True).plain,
    "PredictorTarget, two predictors": two_predictors,
    "PredictorTarget, equal rows": equal_predictors,
    "GroupedTarget, probit": lambda: of_groups("probit", CLASSES),
    "GroupedTarget, binomial": lambda: of_groups("binomial", np.minimum(COUNTS, TRIALS), trials=TRIALS),
    "GroupedTarget, Poisson": lambda: of_groups("poisson", COUNTS),
    "GroupedTarget, negative binomial": lambda: of_groups("negative binomial", COUNTS, shape=3.0),
    "GroupedTarget, of the user": lambda: of_groups(log_poisson, COUNTS, derivatives_eta=derivatives_of_log_poisson),
    "PyMC, logistic": lambda: pymc_model(lambda pm, eta: pm.Bernoulli("y", logit_p=eta, observed=CLASSES)),
    "PyMC, logistic with codes": lambda: pymc_model(
        lambda pm, eta: pm.Bernoulli("y", logit_p=eta + pm.Normal("level", shape=5)[GROUPS], observed=CLASSES)
    ),
    "PyMC, Poisson": lambda: pymc_model(lambda pm, eta: pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)),
    "PyMC, Poisson with codes and offset": lambda: pymc_model(
        lambda pm, eta: pm.Poisson(
            "y", pm.math.exp(eta + pm.Normal("level", shape=5)[GROUPS] + np.log(EXPOSURE)), observed=COUNTS
        )
    ),
    "PyMC, Poisson with exposure": lambda: pymc_model(
        lambda pm, eta: pm.Poisson("y", pm.math.exp(eta) * EXPOSURE, observed=COUNTS)
    ),
    "PyMC, normal with known scale": lambda: pymc_model(lambda pm, eta: pm.Normal("y", eta, 2.0, observed=NUMBERS)),
    "PyMC, normal with known scale and codes": lambda: pymc_model(
        lambda pm, eta: pm.Normal("y", eta + pm.Normal("level", shape=5)[GROUPS], 2.0, observed=NUMBERS)
    ),
    "PyMC, normal": lambda: pymc_model(
        lambda pm, eta: pm.Normal("y", eta, pm.HalfNormal("sigma", 1.0), observed=NUMBERS)
    ),
    "PyMC, Student-t": lambda: pymc_model(lambda pm, eta: pm.StudentT("y", nu=4.0, mu=eta, observed=NUMBERS)),
    "PyMC, groups of counts": lambda: pymc_model(
        lambda pm, eta: pm.Poisson("y", pm.math.exp(eta + effect(pm)), observed=COUNTS), integrate=True
    ),
    "PyMC, groups of counts and numbers": lambda: pymc_model(two_families, integrate=True),
}
TARGETS = {**PUBLIC, **FURTHER}

# Targets whose chains are compiled as well, one for each kind of kernel: the others differ from it in a function of one
# row. Compilation of all would take half an hour.
COMPILED = (
    "BoundedLikelihood",
    "ControlVariate",
    "ControlVariate, influential rows",
    "GLMTarget",
    "GLMTarget, Poisson with derivatives and bound",
    "LinearRegression",
    "LogisticRegression",
    "LogisticRegression, table",
    "RobustRegression",
    "SoftmaxRegression",
    "PyMC, logistic",
    "PyMC, logistic with codes",
    "PyMC, Poisson",
    "PyMC, normal with known scale",
)

WALK = amc.RandomWalk(0.3)


def ball(target):
    """Return the normal approximation around which processes fly."""
    dim = target.initial_point().size
    return amc.numerics.Laplace(np.zeros(dim), 0.1 * np.eye(dim))


def process(target):
    """Return the zig-zag sampler of a target.

    Bounds that do not hold for all predictors grow away from the normal approximation: around 0 a draw may read
    thousands of rows, so these chains are around the mode, and short. Its numbers are rounded, so that they are the
    same with and without compilation.
    """
    try:
        is_global = rows_of(target, ball(target), 1).is_global
    except ApproxMCMCError:
        is_global = True
    if is_global:
        return amc.samplers.ZigZag(ball(target)), target
    law = amc.laplace(target)
    fit = amc.numerics.Laplace(np.round(law.mode, 2), np.diag(np.round(np.diag(law.cov), 2)))
    return amc.samplers.ZigZag(fit, spacing=0.1), target


def chain_of(proposal, test=None):
    """Return the function that makes a Metropolis-Hastings sampler, whatever the target."""
    return lambda target: (amc.MetropolisHastings(proposal, amc.ExactTest() if test is None else test), target)


def with_control_variates(target):
    """Return a chain on the residuals of an expansion at a fixed point."""
    expanded = amc.ControlVariate(target, at=start_of(target))
    return amc.MetropolisHastings(WALK, amc.SequentialTTest(0.2, 4, order="blocks")), expanded


def with_influential_rows(target):
    """Return a chain of surrogate transitions, with two rows that are always read."""
    expanded = amc.ControlVariate(target, always_read=[0, 3], at=ball(target))
    return amc.MetropolisHastings(amc.SurrogateTransition(), amc.acceptance.PoissonTest()), expanded


def with_bright_rows(target):
    """Return a Firefly chain: with the user's bound, or with one that needs no mode."""
    kind = "own" if isinstance(target, amc.targets.BoundedLikelihood) else "untuned"
    return amc.Firefly(WALK, bound=kind, z_update=amc.samplers.ImplicitResampling(0.3)), target


METHODS = {
    "random walk": chain_of(WALK),
    "t-test in blocks": chain_of(WALK, amc.SequentialTTest(0.2, 4, order="blocks")),
    "t-test in rows": chain_of(WALK, amc.SequentialTTest(0.2, 4, order="rows")),
    "Langevin": chain_of(amc.Langevin(0.05)),
    "Hamiltonian": chain_of(amc.proposals.Hamiltonian(0.1, length=0.3)),
    "control variates": with_control_variates,
    "influential rows": with_influential_rows,
    "Firefly": with_bright_rows,
    "ZigZag": process,
}


def start_of(target):
    """Return the point where a chain starts: the target's own, or one beside it if parameters are continuous.

    It is rounded, because a target may search it (the mode of groups), and Langevin steps amplify a difference of 1e-12
    between compiled and uncompiled searches to 1e-8.
    """
    theta = np.round(np.asarray(target.initial_point(), dtype=float), 6)
    return theta if isinstance(target, DiscreteTarget) else theta + 0.1 * (-1.0) ** np.arange(theta.size)


def digest(array):
    """Return a digest of the bytes of an array."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=4).hexdigest()


def first_words(prefix, text):
    """Return the first words of a message, on one line."""
    return f"{prefix}: " + " ".join(str(text).split()[:WORDS])


def entry_of(method, target):
    """Return the ledger's text for a pairing: digests of draws, counts and bits, or why there are none."""
    theta = start_of(target)
    try:
        sampler, posterior = METHODS[method](target)
        program = sampler.build(posterior, audit_every=25)
    except ApproxMCMCError as refusal:
        return first_words(type(refusal).__name__, refusal)
    chain = program.start(theta, streams(seed_sequences(SEED, 1)[0][0]), 0)
    draws = np.empty((DRAWS, theta.size))
    counts = np.zeros((DRAWS, len(COUNT_NAMES)), dtype=np.int64)
    values = np.zeros((DRAWS, len(VALUE_NAMES)))
    done = chain.advance(DRAWS, 1, draws, counts, values)
    if done < DRAWS:
        return first_words(f"stopped at draw {done}", chain.explain_failure())
    rounded = np.round(draws, DECIMALS) + 0.0  # no -0
    return " ".join(map(digest, (rounded, counts, draws)))


def entries_of(name):
    """Return the entries of all methods for a target of `TARGETS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amc.errors.SamplingWarning)  # batches of 4 are small on purpose
        try:
            target = TARGETS[name]()
        except ApproxMCMCError as refusal:
            return dict.fromkeys(METHODS, first_words(type(refusal).__name__, refusal))
        return {method: entry_of(method, target) for method in METHODS}


def machine():
    """Return what the bits of draws depend on beside the code."""
    return {
        "processor": f"{platform.machine()} {binding.get_host_cpu_name()}",
        "numba": numba.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def read():
    """Return the stored ledger: machine, and entries by target and method."""
    stored = tomllib.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    return stored.pop("machine", {}), stored


def of_mode(entry, mode=MODE):
    """Return the text of an entry that holds in one of the modes, compiled or plain."""
    return entry if isinstance(entry, str) else entry.get(mode, "not recorded")


def comparable(entry, *, bits):
    """Return the text of an entry, without the digest of the bits where these cannot be compared."""
    return entry if bits or is_refusal(entry) else " ".join(entry.split()[:2])


def is_refusal(entry):
    """Return whether an entry is the text of an error, and no digests."""
    digests = entry.split()
    return len(digests) != 3 or any(len(one) != 8 for one in digests)


def write(names):
    """Draw the entries of some targets in this mode, and store them beside those of the other mode.

    A pairing is refused in both modes or in neither, but the bits of one mode say nothing of the other's: a pairing is
    "not recorded" in the other mode, and a test fails, until its draws are written there, too.
    """
    _, stored = read()
    for name in names:
        fresh, known = entries_of(name), stored.get(name, {})
        other = "compiled" if MODE == "plain" else "plain"
        merged = {}
        for method, text in fresh.items():
            before = of_mode(known[method], other) if method in known else text if is_refusal(text) else "not recorded"
            merged[method] = text if text == before else {MODE: text, other: before}
        stored[name] = merged
        _save(stored)


def _save(stored):
    """Write the file, in the order of `TARGETS` and `METHODS`."""
    lines = ["# Digests of draws, counts and bits by target and sampler: see tests/ledger.py.", "[machine]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in machine().items()]
    for name in [name for name in TARGETS if name in stored]:
        lines += ["", f"[{json.dumps(name)}]"]
        for method, entry in stored[name].items():
            if isinstance(entry, str):
                lines.append(f"{json.dumps(method)} = {json.dumps(entry)}")
            else:
                lines += [f"{json.dumps(method)}.{mode} = {json.dumps(entry[mode])}" for mode in sorted(entry)]
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:] or list(TARGETS))
