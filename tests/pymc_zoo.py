"""Small PyMC models of many kinds: those that the row bridge of `from_pymc` accepts, and those that it refuses."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N, GROUPS = 300, 7
_rng = np.random.default_rng(3)
GROUP = _rng.integers(0, GROUPS, N)
X = _rng.normal(size=(N, 3))
COUNTS = _rng.poisson(np.exp(0.3 * X[:, 0] + 0.1 * GROUP))
Z = X @ [0.5, -0.2, 0.1] + _rng.normal(size=N)
BINARY = (Z > 0).astype(int)
MISSING = np.ma.masked_array(Z, mask=_rng.random(N) < 0.05)


def logistic():
    beta = pm.Normal("beta", 0, 10, shape=3)
    pm.Bernoulli("y", logit_p=pt.as_tensor(X) @ beta, observed=BINARY)


def logistic_with_data_containers():
    beta = pm.Normal("beta", 0, 10, shape=3)
    pm.Bernoulli("y", logit_p=pm.Data("X", X) @ beta, observed=pm.Data("y_observed", BINARY))


def minibatch():
    rows, y = pm.Minibatch(X, BINARY.astype(np.int32), batch_size=20)
    beta = pm.Normal("beta", 0, 10, shape=3)
    pm.Bernoulli("y", logit_p=rows @ beta, observed=y, total_size=N)


def unknown_sigma():
    beta = pm.Normal("beta", 0, 1, shape=3)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", pt.as_tensor(X) @ beta, sigma, observed=Z)


def centred_inside():
    s = pm.Normal("s", 0, 1)
    data = pm.Data("data", X)
    pm.Normal("y", s * (data - data.mean(0))[:, 0], 1, observed=Z)


def poisson():
    beta = pm.Normal("beta", 0, 1, shape=3)
    pm.Poisson("y", pt.exp(pt.as_tensor(X) @ beta), observed=COUNTS)


def negative_binomial():
    beta = pm.Normal("beta", 0, 1, shape=3)
    alpha = pm.Exponential("alpha", 1)
    pm.NegativeBinomial("y", mu=pt.exp(pt.as_tensor(X) @ beta), alpha=alpha, observed=COUNTS)


def varying_intercepts():
    group = pm.Data("group_of_row", GROUP)
    tau = pm.HalfNormal("tau", 1.0)
    mu = pm.Normal("mu", 0, 1)
    intercept = pm.Normal("intercept", mu, tau, shape=GROUPS)
    beta = pm.Normal("beta", 0, 1, shape=3)
    pm.Poisson("y", pt.exp(intercept[group] + pt.as_tensor(X) @ beta), observed=COUNTS)


def varying_intercepts_with_plain_arrays():
    tau = pm.HalfNormal("tau", 1.0)
    intercept = pm.Normal("intercept", 0, tau, shape=GROUPS)
    pm.Poisson("y", pt.exp(intercept[GROUP]), observed=COUNTS)


def custom_density():
    s = pm.Normal("s", 0, 1)
    pm.CustomDist("y", s, logp=lambda value, m: -pt.log1p((value - m) ** 2), observed=Z)


def mixture():
    w = pm.Dirichlet("w", np.ones(2))
    m = pm.Normal("m", 0, 1, shape=2)
    pm.NormalMixture("y", w=w, mu=m, sigma=1.0, observed=Z)


def multivariate_rows():
    m = pm.Normal("m", 0, 1, shape=3)
    pm.MvNormal("y", m, cov=np.eye(3), observed=X)


def categorical():
    w = pm.Normal("w", 0, 1, shape=(3, 4))
    pm.Categorical("y", p=pm.math.softmax(pt.as_tensor(X) @ w, axis=-1), observed=GROUP % 4)


def transposed_design():
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Normal("y", pt.dot(b, pt.as_tensor(np.ascontiguousarray(X.T))), 1, observed=Z)


def censored():
    s = pm.Normal("s", 0, 1)
    pm.Censored("y", pm.Normal.dist(s, 1), lower=-1, upper=None, observed=np.maximum(Z, -1))


def hurdle():
    psi, mu = pm.Beta("psi", 1, 1), pm.Exponential("mu", 1)
    pm.HurdlePoisson("y", psi=psi, mu=mu, observed=COUNTS)


def custom_law():
    beta = pm.Normal("beta", 0, 1, shape=3)
    pm.CustomDist(
        "y", pt.as_tensor(X) @ beta, dist=lambda m, size: pt.exp(pm.Normal.dist(m, 1, size=size)), observed=np.exp(Z)
    )


def potential_on_parameters():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", s, 1, observed=Z)
    pm.Potential("extra", -(s**4))


ACCEPTED = (
    logistic,
    logistic_with_data_containers,
    minibatch,
    unknown_sigma,
    poisson,
    negative_binomial,
    varying_intercepts,
    varying_intercepts_with_plain_arrays,
    custom_density,
    mixture,
    multivariate_rows,
    categorical,
    transposed_design,
    censored,
    hurdle,
    custom_law,
    potential_on_parameters,
)


def nothing_observed():
    pm.Normal("s", 0, 1)


def two_observed():
    beta = pm.Normal("beta", 0, 1, shape=3)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("y", pt.as_tensor(X) @ beta, sigma, observed=Z)
    pm.Poisson("y2", pt.exp(0.3 * (pt.as_tensor(X) @ beta)), observed=COUNTS)


def observed_over_other_rows():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", s, 1, observed=Z)
    pm.Normal("y2", s, 1, observed=Z[:GROUPS])


def missing_values():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", s, 1, observed=MISSING)


def discrete_parameter():
    k = pm.Bernoulli("k", 0.5)
    pm.Normal("y", k, 1, observed=Z)


def latent_for_each_row():
    u = pm.Normal("u", 0, 1, shape=N)
    pm.Normal("y", u, 1, observed=Z)


def one_normal_over_all_rows():
    scale = pm.HalfNormal("scale", 1)
    pm.MvNormal("y", 0, cov=scale * np.eye(50), observed=Z[:50])


def autoregression():
    rho = pm.Normal("rho", 0, 0.5)
    pm.AR("y", rho, sigma=1.0, constant=False, init_dist=pm.Normal.dist(), observed=Z)


def gaussian_process():
    length = pm.HalfNormal("length", 1)
    process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, length))
    process.marginal_likelihood("y", X=X[:40, :1], y=Z[:40], sigma=0.1)


def potential_on_data():
    s = pm.Normal("s", 0, 1)
    data = pm.Data("data", Z)
    pm.Normal("y", s, 1, observed=data)
    pm.Potential("extra", -((data - s).sum() ** 2))


def potential_on_plain_arrays():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", s, 1, observed=Z)
    pm.Potential("extra", -((X[:, 0] - s) ** 2).sum())


def potential_on_the_observed_variable():
    s = pm.Normal("s", 0, 1)
    y = pm.Normal("y", s, 1, observed=Z)
    pm.Potential("extra", -((y.sum() - s) ** 2))


def rescaled():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", s, 1, observed=Z, total_size=10 * N)


REFUSED_AT_SIGHT = {
    nothing_observed: "no observed variable",
    observed_over_other_rows: "need the same number of rows, since a row is one term; 'y' has 300, 'y2' has 7",
    missing_values: "y_unobserved.*leave out the rows",
    discrete_parameter: r"\['k'\] are discrete",
    latent_for_each_row: r"latent variables with an entry for each of the 300 rows \(u\) leave nothing to subsample",
    one_normal_over_all_rows: "it is ambiguous which axis counts rows.*row_dim",
    autoregression: "some rows of the AutoRegressive variable 'y' alone",
    gaussian_process: "all rows of the MvNormal variable 'y' have one log density",
    potential_on_data: "potential 'extra' depends on the data",
    potential_on_plain_arrays: "potential 'extra' depends on the data",
    potential_on_the_observed_variable: "potential 'extra' depends on the data",
    rescaled: "total_size 3000 and 300 rows",
}


def cumulative_sum():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", pt.cumsum(s * pt.as_tensor(X[:, 0])), 1, observed=Z)


def largest_of_few_rows():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", (s * pt.as_tensor(X[:40, 0])).max(), 1, observed=Z[:40])


def length_written_out():
    s = pm.Normal("s", 0, 1)
    pm.Normal("y", s + pt.zeros(N), 1, observed=Z)


REFUSED_WHEN_RUN = {
    cumulative_sum: "changes when other rows are left out",
    largest_of_few_rows: "changes when other rows are left out",
    length_written_out: r"array of that length made inside the model \(pt.zeros\(300\)\)",
}

# Models whose groups or discrete variables leave the likelihood, for the table of plans.


def normal_hierarchy():
    tau = pm.HalfNormal("tau", 1.0)
    z = pm.Normal("z", shape=GROUPS)
    pm.Normal("y", pm.Normal("mu") + tau * z[GROUP], pm.HalfNormal("sigma"), observed=Z)


def counts_of_many_groups():
    """With three rows for each of 100 centred effects, NUTS would meet a funnel."""
    effect = pm.Normal("effect", pm.Normal("mu"), pm.HalfNormal("tau"), shape=N // 3)
    pm.Poisson("y", pt.exp(effect[np.arange(N) // 3]), observed=COUNTS)


def counts_of_few_groups():
    """NUTS makes its draws while quadrature would be compiled."""
    effect = pm.HalfNormal("tau") * pm.Normal("z", shape=30)
    pm.Poisson("y", pt.exp(pm.Normal("mu") + effect[np.arange(N) % 30]), observed=COUNTS)


def component_of_each_row():
    z = pm.Categorical("z", p=pm.Dirichlet("w", np.ones(2)), shape=N)
    pm.Normal("y", pm.Normal("m", shape=2)[z], 1.0, observed=Z)


def component_of_each_group():
    z = pm.Bernoulli("z", pm.Beta("p", 1, 1), shape=GROUPS)
    pm.Poisson("y", pt.exp(pm.Normal("m", shape=2)[z[GROUP]]), observed=COUNTS)


def ordered():
    cuts = pm.Normal("cuts", [-1.0, 1.0], transform=pm.distributions.transforms.ordered, shape=2)
    pm.OrderedLogistic("y", eta=pt.as_tensor(X) @ pm.Normal("beta", shape=3), cutpoints=cuts, observed=GROUP % 3)


REDUCED = (
    normal_hierarchy,
    counts_of_many_groups,
    counts_of_few_groups,
    component_of_each_row,
    component_of_each_group,
    ordered,
)


def build(model_function):
    """Return the `pm.Model` that a function of this file fills."""
    with warnings.catch_warnings():  # PyMC says that it imputes, and that potentials are not sampled from
        warnings.simplefilter("ignore")
        with pm.Model() as model:
            model_function()
    return model
