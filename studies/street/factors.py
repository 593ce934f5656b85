"""Models with several factors: crossed, with flat or proper scales, and persons who answer items."""

import numpy as np
import pymc as pm

from approxmcmc.datasets.libsvm import LEVELS, PEOPLE


def _crossed(rows: int, sizes: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return levels of the factors (factors, rows), the sum of their effects for each row, and a generator."""
    rng = np.random.default_rng(seed)
    levels = np.array([rng.integers(size, size=rows) for size in sizes])
    effects = [rng.normal(scale=0.5, size=size) for size in sizes]
    return levels, np.sum([effect[level] for effect, level in zip(effects, levels, strict=True)], axis=0), rng


def won(eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw responses 0 or 1 with logits `eta`."""
    return np.asarray(rng.random(eta.size) < 1.0 / (1.0 + np.exp(-eta)), dtype=np.int64)


def five_factors() -> None:
    """Write a logistic regression, 12 000 rows of five crossed factors, with flat priors of the scales."""
    sizes = (40, 25, 15, 10, 6)
    levels, eta, rng = _crossed(12_000, sizes)
    predictor = pm.Normal("mu", 0.0, 2.0)
    for k, size in enumerate(sizes):
        scale = pm.HalfFlat(f"scale_{k}")
        predictor += pm.Normal(f"effect_{k}", 0.0, scale, shape=size)[levels[k]]
    pm.Bernoulli("y", logit_p=predictor, observed=won(eta, rng))


def incomes() -> None:
    """Write a model of high incomes of 5000 people of the census data a9a, by five factors, not centred."""
    (bits, won, *_), _ = PEOPLE.find()
    starts = np.concatenate([[0], np.cumsum(LEVELS)])
    predictor = pm.Normal("mu", 0.0, 2.0)
    for name, k in {"work": 1, "education": 3, "occupation": 6, "relation": 7, "country": 13}.items():
        level = bits[:5000, starts[k] : starts[k + 1]].argmax(axis=1)
        z = pm.Normal(f"z_{name}", shape=LEVELS[k])
        scale = pm.HalfNormal(f"scale_{name}", 1.0)
        predictor += (scale * z)[level]
    pm.Bernoulli("y", logit_p=predictor, observed=np.asarray(won[:5000] > 0, dtype=np.int64))


def reaction_times() -> None:
    """Write a model of 5000 log reaction times of 60 subjects and 40 items, with a slope for each subject."""
    (subject, item), eta, rng = _crossed(5000, (60, 40))
    x = rng.normal(size=5000)
    mu = pm.Normal("mu", 0.0, 2.0)
    beta = pm.Normal("beta", 0.0, 1.0)
    scales = {name: pm.HalfNormal(f"scale_{name}", 1.0) for name in ("subject", "item", "slope")}
    a = pm.Normal("a", 0.0, scales["subject"], shape=60)
    b = pm.Normal("b", 0.0, scales["slope"], shape=60)
    c = pm.Normal("c", 0.0, scales["item"], shape=40)
    rows = mu + a[subject] + c[item] + (beta + b[subject]) * x
    pm.Normal("y", rows, pm.HalfNormal("noise", 1.0), observed=eta + 0.4 * x + rng.normal(scale=0.5, size=5000))


def insurance() -> None:
    """Write a model of 6000 counts of claims with exposures, by three factors with effects that sum to zero."""
    sizes = (30, 12, 5)
    levels, eta, rng = _crossed(6000, sizes)
    exposure = rng.uniform(0.2, 1.0, size=6000)
    predictor = pm.Normal("mu", -1.0, 1.0)
    for k, size in enumerate(sizes):
        predictor += pm.ZeroSumNormal(f"effect_{k}", sigma=pm.HalfNormal(f"scale_{k}", 1.0), shape=size)[levels[k]]
    pm.Poisson("y", exposure * pm.math.exp(predictor), observed=rng.poisson(exposure * np.exp(eta - 1.0)))


def shops_and_days() -> None:
    """Write a model of 4000 overdispersed counts of 80 shops and 52 weeks."""
    (shop, week), eta, rng = _crossed(4000, (80, 52))
    mu = pm.Normal("mu", 0.0, 2.0)
    alpha = pm.Exponential("alpha", 0.5)
    a = pm.Normal("a", 0.0, pm.HalfNormal("scale_shop", 1.0), shape=80)
    b = pm.Normal("b", 0.0, pm.HalfNormal("scale_week", 1.0), shape=52)
    counts = rng.poisson(np.exp(eta + 1.0) * rng.gamma(2.0, 0.5, size=4000))
    pm.NegativeBinomial("y", mu=pm.math.exp(mu + a[shop] + b[week]), alpha=alpha, observed=counts)


def items() -> None:
    """Write a model of 2000 answers of 120 persons to 24 items: the logit is ability minus difficulty."""
    (person, item), eta, rng = _crossed(2000, (120, 24))
    ability = pm.Normal("ability", 0.0, 1.0, shape=120)
    difficulty = pm.Normal("difficulty", 0.0, 1.5, shape=24)
    pm.Bernoulli("y", logit_p=ability[person] - difficulty[item], observed=won(eta, rng))


def items_that_discriminate() -> None:
    """Write the model of `items` with a positive slope for each item: 3000 answers of 150 persons to 20 items."""
    (person, item), eta, rng = _crossed(3000, (150, 20))
    ability = pm.Normal("ability", shape=150)
    difficulty = pm.Normal("difficulty", 0.0, 1.5, shape=20)
    slope = pm.LogNormal("slope", 0.0, 0.5, shape=20)
    pm.Bernoulli("y", logit_p=slope[item] * (ability[person] - difficulty[item]), observed=won(1.5 * eta, rng))


def opinions() -> None:
    """Write a model of 3000 answers by state, age, education and the interaction of the last two, not centred."""
    (state, age, school), eta, rng = _crossed(3000, (50, 4, 5))
    predictor = pm.Normal("mu", 0.0, 1.5)
    cells = {"state": (50, state), "age": (4, age), "school": (5, school), "age_school": (20, 5 * age + school)}
    for name, (size, level) in cells.items():
        z = pm.Normal(f"z_{name}", shape=size)
        scale = pm.Exponential(f"scale_{name}", 2.0)
        predictor += (scale * z)[level]
    pm.Bernoulli("y", logit_p=predictor, observed=won(eta, rng))


MODELS = (
    five_factors,
    incomes,
    reaction_times,
    insurance,
    shops_and_days,
    items,
    items_that_discriminate,
    opinions,
)
