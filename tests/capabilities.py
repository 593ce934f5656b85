"""What works with which regression, asked of the library: the capability table.

A *model* is a family with a design, made of a few rows. Each *question* is answered by doing the thing, or by building
the sampler, without draws: "" if it works, else the library's own sentence. `tests/capabilities.toml` holds the
questions that work for each model, so that a lost one fails a test; a gained one asks for::

    NUMBA_DISABLE_JIT=1 python -m tests.capabilities

The documentation draws its page from the answers. All runs without the compiler, in some seconds.
"""

import functools
import json
import re
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import approxmcmc as amc
from approxmcmc import acceptance, targets
from approxmcmc.contracts import Sampler, Target
from approxmcmc.errors import ApproxMCMCError
from approxmcmc.sources import Arrays, ParquetFolder
from approxmcmc.sources.parts import make_part, recipe_of, why_here
from approxmcmc.targets.compression import explain_rows
from approxmcmc.targets.stands_for_rows import StandsForRows

PATH = Path(__file__).with_suffix(".toml")

# --- rows: six distinct ones, each twice, so that equal rows can be merged ---

N = 12
_rng = np.random.default_rng(20)


def _twice(values: Any) -> np.ndarray:
    return np.tile(np.asarray(values, dtype=float), 2)


AGE, HEIGHT, NUMBERS = (_twice(0.3 * _rng.normal(size=N // 2)) for _ in range(3))
K = np.arange(N // 2)
BINARY = _twice(K % 2)
COUNTS = _twice(K % 4)
TRIALS = _twice(1 + K % 3)
POSITIVE = _twice(0.5 + (K + K // 3) % 3)  # not a function of the town, which would fit it without error
SHARES = POSITIVE / 4.0
CLASSES = _twice(K % 3)
OFFSET = _twice(0.1 * (K % 3))
WEIGHTS = _twice(1.0 + K % 2)
GROUPS = np.tile(K % 4, 2)
X = np.column_stack([AGE, HEIGHT])
TABLE = pd.DataFrame({"age": AGE, "town": np.array(["Bern", "Oslo", "Rome"])[np.arange(N) % 3]})


def log_poisson(eta: float, y: float) -> float:
    """Return the log density of a count without log y!."""
    return y * eta - np.exp(min(eta, 700.0))


def log_logit(eta: float, y: float) -> float:
    """Return the log density of 0 or 1."""
    return y * eta - np.logaddexp(0.0, eta)


def derivatives_of_log_logit(eta: float, y: float) -> tuple[float, float]:
    """Return its first two derivatives in eta."""
    p = 1.0 / (1.0 + np.exp(-eta))
    return y - p, -p * (1.0 - p)


def log_normal(mean: float, log_scale: float, y: float) -> float:
    """Return the log density of a number without its constant."""
    return -log_scale - 0.5 * ((y - mean) * np.exp(-log_scale)) ** 2


def columns_with_log_scale(X: Any) -> dict[str, dict[str, Any]]:
    """Return the designs of a mean and a log scale."""
    columns = {"beta": X}
    if not isinstance(X, np.ndarray):  # a table or a source: one column of numbers, one of categories
        columns = {"beta": X["age"], "town": X["town"] if X is not TABLE else TABLE["town"].astype("category")}
    return {"mean": columns, "log_scale": {"log_sigma": 1.0}}


def with_log_scale(X: Any, y: Any, *, intercept: bool = False, offset: Any = None, **others: Any) -> Target:
    """Return a user's normal model of the columns X, with a predictor for the log scale."""
    predictors = columns_with_log_scale(X)
    offsets = None if offset is None else {"mean": offset}
    functions = {"mean": lambda mean, log_scale: mean, "simulate": draw_normal}
    return targets.PredictorTarget(log_normal, predictors, y, offsets=offsets, **functions, **others)


def draw_normal(rng: np.random.Generator, mean: np.ndarray, log_scale: np.ndarray) -> np.ndarray:
    """Draw numbers."""
    return mean + np.exp(log_scale) * rng.normal(size=mean.shape)


class Family(NamedTuple):
    """A row of the table: its public class, responses, the settings that choose the family, and the class of groups.

    `sizes` are further numbers of each row, by their argument's name. `has_intercept` says whether the family takes an
    intercept, `offset` is a known part of its predictors.
    """

    make: Callable[..., Target]
    y: np.ndarray
    settings: Mapping[str, Any] = MappingProxyType({})
    groups: Callable[..., Target] | None = None
    sizes: Mapping[str, np.ndarray] = MappingProxyType({})
    has_intercept: bool = True
    offset: np.ndarray = OFFSET


def in_groups(family: Any, **settings: Any) -> Callable[..., Target]:
    """Return the target that integrates the effects of groups, for rows of a family."""
    return functools.partial(targets.GroupedTarget, family=family, n_nodes=3, **settings)


BOUNDED = {
    "derivatives_eta": derivatives_of_log_logit,
    "slope_bound": 1.0,
    "second_derivative_bound": 0.25,
    "third_derivative_bound": 0.1,
}
FAMILIES = {
    "Bernoulli, logit": Family(targets.LogisticRegression, BINARY, groups=in_groups("logit")),
    "Bernoulli, probit": Family(targets.ProbitRegression, BINARY, groups=in_groups("probit")),
    "Bernoulli, cloglog": Family(targets.CloglogRegression, BINARY, groups=in_groups("cloglog")),
    "binomial": Family(
        targets.BinomialRegression,
        np.minimum(COUNTS, TRIALS),
        groups=in_groups("binomial"),
        sizes={"trials": TRIALS},
    ),
    "Poisson": Family(targets.PoissonRegression, COUNTS, groups=in_groups("poisson")),
    "negative binomial, known shape": Family(
        targets.NegativeBinomialRegression, COUNTS, {"alpha": 2.0}, in_groups("negative binomial", shape=2.0)
    ),
    "negative binomial": Family(targets.NegativeBinomialRegression, COUNTS, groups=in_groups("negative binomial")),
    "normal, known scale": Family(targets.LinearRegression, NUMBERS, {"sigma": 1.0}, targets.NormalGroups),
    "normal": Family(targets.LinearRegression, NUMBERS, groups=targets.NormalGroups),
    "Student-t": Family(targets.RobustRegression, NUMBERS, groups=in_groups("student t")),
    "exponential": Family(targets.ExponentialRegression, POSITIVE, groups=in_groups("gamma", shape=1.0)),
    "gamma, known shape": Family(targets.GammaRegression, POSITIVE, {"alpha": 2.0}, in_groups("gamma", shape=2.0)),
    "gamma": Family(targets.GammaRegression, POSITIVE, groups=in_groups("gamma")),
    "Weibull, known shape": Family(
        targets.WeibullRegression, POSITIVE, {"alpha": 1.5}, in_groups("weibull", shape=1.5)
    ),
    "Weibull": Family(targets.WeibullRegression, POSITIVE, groups=in_groups("weibull")),
    "beta, known precision": Family(targets.BetaRegression, SHARES, {"phi": 6.0}, in_groups("beta", shape=6.0)),
    "beta": Family(targets.BetaRegression, SHARES, groups=in_groups("beta")),
    "ordered logit": Family(targets.OrderedRegression, CLASSES, groups=in_groups("ordered logit"), has_intercept=False),
    "softmax": Family(
        targets.SoftmaxRegression,
        CLASSES,
        groups=in_groups("softmax"),
        offset=np.column_stack([OFFSET, 0.0 * OFFSET, -OFFSET]),
    ),
    "yours": Family(
        functools.partial(
            targets.GLMTarget, log_poisson, mean=np.exp, simulate=lambda rng, eta: rng.poisson(np.exp(eta))
        ),
        COUNTS,
        groups=in_groups(log_poisson),
    ),
    "yours, two predictors": Family(with_log_scale, NUMBERS, groups=in_groups("two predictors"), has_intercept=False),
    "yours, with bounds": Family(
        functools.partial(
            targets.GLMTarget,
            log_logit,
            **BOUNDED,
            mean=lambda eta: 1.0 / (1.0 + np.exp(-eta)),
            simulate=lambda rng, eta: (rng.logistic(size=eta.shape) < eta).astype(float),
        ),
        BINARY,
        groups=in_groups(log_logit, derivatives_eta=derivatives_of_log_logit),
    ),
}


@functools.cache
def parquet() -> ParquetFolder:
    """Return the table as a source: a Parquet file."""
    folder = Path(tempfile.mkdtemp())
    TABLE.astype({"town": "category"}).to_parquet(folder / "rows.parquet")
    return ParquetFolder(folder)


def intercept(family: Family) -> dict[str, bool]:
    """Return the argument of a design with an intercept, if the family takes one."""
    return {"intercept": True} if family.has_intercept else {}


SOURCE = "source"
DESIGNS: dict[str, Callable[[Family], dict[str, Any]]] = {
    "matrix": lambda family: {"X": X, "y": family.y, **family.sizes},
    "table with text": lambda family: {"X": TABLE, "y": family.y, **intercept(family), **family.sizes},
    "offset": lambda family: {"X": X, "y": family.y, "offset": family.offset, **family.sizes},
    "weights": lambda family: {"X": X, "y": family.y, "weights": WEIGHTS, **family.sizes},
    SOURCE: lambda family: {
        "X": parquet(),
        "y": Arrays(family.y),
        **intercept(family),
        **{name: Arrays(numbers) for name, numbers in family.sizes.items()},
    },
}


class Model:
    """A regression of a family and a design, and the forms of it that several questions need."""

    def __init__(self, family: Family, design: str) -> None:
        self.family = family
        self.design = design
        self.arguments = DESIGNS[design](family)
        self.target = family.make(**self.arguments, **family.settings)
        self.dim = self.target.variables.size
        self.new_rows = TABLE if design in ("table with text", SOURCE) else X

    @functools.cached_property
    def around(self) -> amc.numerics.Laplace:
        """The normal approximation at the mode."""
        return amc.laplace(self.target)

    @functools.cached_property
    def expanded(self) -> amc.ControlVariate:
        """The target with control variates."""
        return amc.ControlVariate(self.target, at=self.around)

    @functools.cached_property
    def with_influential_rows(self) -> amc.ControlVariate:
        """The target with control variates, and a row that is always read."""
        return amc.ControlVariate(self.target, at=self.around, always_read=np.arange(self.target.n_obs) == 3)

    @functools.cached_property
    def trace(self) -> xr.DataTree:
        """A trace of two draws, both of them 0."""
        unpacked = self.target.variables.unpack(np.zeros(self.dim))
        draws = {
            name: (("chain", "draw", *(f"{name}_{k}" for k in range(np.ndim(value)))), np.stack([value] * 2)[None])
            for name, value in unpacked.items()
        }
        return xr.DataTree.from_dict({"posterior": xr.Dataset(draws, {"chain": [0], "draw": [0, 1]})})


# --- questions: abilities, then samplers ---

GROUPS_INTEGRATED = "groups integrated"


def refusal(sampler: Sampler, target: Target) -> str:
    """Return why a sampler cannot run on a target, without the sampler's name; "" if it can."""
    return re.sub(rf"^{type(sampler).__name__}\b", "The sampler", sampler.why_not(target))


def gradient(model: Model) -> Any:
    """Build a proposal that reads gradients."""
    return amc.Langevin(0.1).build_proposal(model.target)


def is_merged(model: Model) -> str:
    """Return "" if equal rows become one term, or all rows sufficient statistics."""
    found = targets.compressed(model.target)
    return "" if isinstance(found, StandsForRows) else explain_rows(model.target)


def groups(model: Model) -> Any:
    """Make a target of this family with integrated effects of groups."""
    return model.family.groups(**model.arguments, groups=GROUPS)


def parts(model: Model) -> str:
    """Make a part of the rows, given as sources, as a worker of a Dask cluster does."""
    target = model.target if model.design == SOURCE else Model(model.family, SOURCE).target
    why = why_here(target)
    if not why:
        assert make_part(recipe_of(target), 0, N // 2).target.n_obs == N // 2
    return why


def replicated(model: Model) -> Any:
    """Draw responses of the target's own rows."""
    return amc.posterior_predictive(model.trace, model.target, random_seed=0)


def predicted(model: Model) -> Any:
    """Predict the mean of new rows."""
    columns = model.family.sizes
    new_rows = model.new_rows
    if isinstance(model.target, targets.PredictorTarget):
        new_rows = columns_with_log_scale(new_rows)
    return amc.predict(model.trace, model.target, new_rows, **columns)


ABILITIES: dict[str, Callable[[Model], Any]] = {
    "gradient": gradient,
    "control variates": lambda model: model.expanded,
    "influential rows": lambda model: model.with_influential_rows,
    "bound of the terms' range": lambda model: model.target.compile_term_range(),
    "bound of each term": lambda model: model.target.compile_difference_bound(),
    "bound of the residuals' range": lambda model: model.expanded.compile_term_range(),
    "bound of each residual": lambda model: model.expanded.compile_difference_bound(),
    "lower bounds for Firefly": lambda model: refusal(amc.Firefly(WALK, bound="untuned"), model.target),
    "merged rows": is_merged,
    GROUPS_INTEGRATED: groups,
    "parts on Dask": parts,
    "PyMC model": lambda model: model.target.to_pymc() is None,
    "replicated responses": replicated,
    "predictions of new rows": predicted,
}

WALK = amc.RandomWalk(0.1)
T_TEST = amc.SequentialTTest(0.1, 6)


def decided_by(test: Any, proposal: Any = WALK) -> Callable[[Model], tuple[Target, Sampler]]:
    """Return the pairing of the plain target with Metropolis-Hastings."""
    return lambda model: (model.target, amc.MetropolisHastings(proposal, test))


def on_residuals(test: Any) -> Callable[[Model], tuple[Target, Sampler]]:
    """Return the pairing of control variates with Metropolis-Hastings."""
    return lambda model: (model.expanded, amc.MetropolisHastings(WALK, test))


SAMPLERS: dict[str, Callable[[Model], tuple[Target, Sampler]]] = {
    "ExactTest": decided_by(amc.ExactTest()),
    "SequentialTTest": decided_by(T_TEST),
    "MinibatchBarker": decided_by(acceptance.MinibatchBarker(batch_size=6)),
    "DelayedAcceptance": decided_by(acceptance.DelayedAcceptance(amc.ExactTest())),
    "BernsteinTest": decided_by(acceptance.BernsteinTest(0.1, 6)),
    "PoissonTest": decided_by(acceptance.PoissonTest()),
    "TunaTest": decided_by(acceptance.TunaTest(0.01)),
    "FactorizedTest": decided_by(acceptance.FactorizedTest()),
    "SequentialTTest on control variates": on_residuals(T_TEST),
    "BernsteinTest on control variates": on_residuals(acceptance.BernsteinTest(0.1, 6)),
    "PoissonTest on control variates": on_residuals(acceptance.PoissonTest()),
    "SurrogateTransition with influential rows": lambda model: (
        model.with_influential_rows,
        amc.MetropolisHastings(amc.SurrogateTransition("walk")),
    ),
    "Langevin": decided_by(amc.ExactTest(), amc.Langevin(0.05)),
    "Hamiltonian": decided_by(amc.ExactTest(), amc.proposals.Hamiltonian(0.1)),
    "StochasticGradientLangevin": decided_by(
        acceptance.AlwaysAccept(), amc.proposals.StochasticGradientLangevin(0.01, batch_size=6)
    ),
    "Firefly": lambda model: (model.target, amc.Firefly(WALK, bound="untuned")),
    "ZigZag": lambda model: (model.target, amc.samplers.ZigZag(model.around)),
    "BouncyParticle": lambda model: (model.target, amc.samplers.BouncyParticle(model.around)),
    "SliceSampler": lambda model: (model.target, amc.samplers.SliceSampler(amc.samplers.Slice(0.5))),
    "NUTS": lambda model: (model.target, amc.NUTS()),
}
QUESTIONS = (*ABILITIES, *SAMPLERS)


def ask(question: str, model: Model) -> str:
    """Return "" if the answer to a question is yes, else the library's reason."""
    try:
        if question in ABILITIES:
            done = ABILITIES[question](model)
            return done if isinstance(done, str) else ""
        target, sampler = SAMPLERS[question](model)
        return refusal(sampler, target)
    except (ApproxMCMCError, TypeError) as error:
        return str(error)


def general(reason: str, name: str, shown: str) -> str:
    """Return a reason without the names and sizes of this model, so that equal reasons are equal texts.

    `name` is the class of the target, and `shown` its repr.
    """
    reason = re.sub(r", distance_to_mode=\S+?\)", ")", reason.replace(shown, "the target"))
    reason = re.sub(r"the family '\w+'", "the family", re.sub(r"(family must be one of .*), found .*", r"\1", reason))
    return re.sub(rf"^{name}\b", "The target", without_class(reason))


def without_class(reason: str) -> str:
    """Return an error of Python on an unknown argument without the name of the class."""
    return re.sub(r"^\w+(\.__init__\(\)|:)(?= got an unexpected)", "The class", reason)


def answers_of(family: str, design: str) -> dict[str, str]:
    """Return the answers to all questions for a model; if it cannot be made, the reason under "made" alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amc.errors.SamplingWarning)  # few rows, on purpose
        try:
            model = Model(FAMILIES[family], design)
        except (ApproxMCMCError, TypeError) as error:
            return {"made": without_class(str(error))}
        of_target = type(model.target).__name__, repr(model.target)
        return {"made": "", **{question: general(ask(question, model), *of_target) for question in QUESTIONS}}


def working(answers: dict[str, str]) -> list[str]:
    """Return the questions that are answered by yes."""
    return [question for question in QUESTIONS if answers.get(question) == ""]


def lost(answers: dict[str, str], stored: list[str]) -> dict[str, str]:
    """Return the stored questions that do not work any more, with the reasons."""
    works = working(answers)
    return {question: answers.get(question, answers["made"]) for question in stored if question not in works}


def all_answers() -> dict[str, dict[str, dict[str, str]]]:
    """Return all answers by family and design."""
    return {family: {design: answers_of(family, design) for design in DESIGNS} for family in FAMILIES}


def read() -> dict[str, dict[str, list[str]]]:
    """Return the stored questions that work, by family and design."""
    return tomllib.loads(PATH.read_text(encoding="utf-8"))


def write(answers: dict[str, dict[str, dict[str, str]]]) -> None:
    """Store the questions that work."""
    lines = ["# What works with which regression: see tests/capabilities.py."]
    for family, by_design in answers.items():
        lines += ["", f"[{json.dumps(family)}]"]
        for design, of_model in by_design.items():
            lines.append(f"{json.dumps(design)} = {json.dumps(working(of_model))}")
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--json"]:
        sys.stdout.write(json.dumps(all_answers()))
    else:
        write(all_answers())
