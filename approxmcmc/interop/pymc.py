"""A PyMC model as a target: its likelihood row by row, compiled by PyTensor, called from the chain's kernel.

The graph of the observed variables is rebuilt over the requested rows: every constant and every shared array with an
axis as long as the data becomes an input that is indexed by row, and only then the log density is formed.
So a call costs only its rows, and nothing of size N is evaluated in a step. (Indexing the full log-likelihood instead
costs O(N) a call: PyTensor does not push the index down.)

Only this subpackage uses semi-private parts of PyTensor and PyMC: in `model` the removal of minibatches, in `rows` and
`graphs` the rebuilding of random variables, in `kernels` the dispatcher of functions compiled by PyTensor's numba
linker.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from approxmcmc.contracts import Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import ApproxMCMCError, IncompatibleError, InvalidInputError
from approxmcmc.interop.any_model import without_formula
from approxmcmc.interop.groups.target import IntegratedOfPyMC
from approxmcmc.interop.law import law_name
from approxmcmc.interop.linear_predictor import PredictorsOfPyMC, rows_of_family
from approxmcmc.interop.plans import (
    COMPILED_ROWS,
    INTEGRATE_GROUPS,
    WITH_TERMS,
    cheapest,
    plan_table,
    refuse_discrete,
    without_discrete,
)
from approxmcmc.interop.pymc_target import PyMCTarget
from approxmcmc.interop.read import ModelDescription, Request
from approxmcmc.targets.compression import explain_rows
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.predictors.closed_form import NormalLikelihood, OrderedLikelihood, SoftmaxLikelihood
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.family import FamilyLikelihood, ShapeLikelihood


@naming_the_arguments
def from_pymc(
    model: Any,
    row_dim: str | None = None,
    *,
    deterministics: Sequence[str] | None = None,
    structure: bool = True,
    scale_effects: bool = True,
    integrate: bool | str = "auto",
    latents: Any = "auto",
    data: Mapping[str, Any] | None = None,
) -> PyMCTarget | PredictorsOfPyMC | IntegratedOfPyMC:
    """Return a PyMC model as a target: log p(theta) with all Jacobians + sum_i log p(y_i | theta) over rows i.

    Parameters
    ----------
    model
        A ``pm.Model`` with observed variables over the same rows, which are independent given the parameters, and
        continuous free variables; discrete ones with an entry for each row or group are summed out (see the page on
        hierarchies). Of a ``bambi.Model`` its PyMC model is taken. Several observed variables are one model: a row's
        term is their sum.
    row_dim
        Name of the dim that counts the rows, for models in which another axis is as long as the data.
    deterministics
        Names of the deterministics that `sample` stores, whatever their size; an empty list: none. None: all, the
        smallest first, as long as they together hold at most 1e8 numbers; a warning and the trace's attribute
        ``not_stored`` name the others.
    structure
        Whether to look for linear predictors, see Notes. False compiles the graph unchanged.
    scale_effects
        Whether samplers move sigma * z in place of a vector z of standard normal variables that one positive variable
        sigma multiplies. This needs at least 100 rows for each entry of z, and entries that vary by more than 10 times
        their variance given the rows. Draws are returned as z either way.
    integrate
        Whether to integrate out effects of groups, see the page on hierarchies. "auto": if that is possible and saves
        work, and `row_dim`, `structure` and `data` are not given. True: also if it saves nothing; raises if it is
        impossible, or if `data` is given. False: never. "if cheaper", which
        `sample` uses for a ``pm.Model``: as "auto", but not by quadrature if NUTS draws from the model in the time that
        compiling the quadrature takes, and meets no funnel. The posterior of the other parameters is the same.
    latents
        Which of the variables that were integrated or summed out `sample` stores in the trace. "auto": all, if groups
        times draws are at most 1e7, else none. A list of labels of groups: those of these groups. None: none, and
        `approxmcmc.latents` draws them later. A path that ends with ``.zarr``: all are written to this folder instead,
        as float32, for `xarray.open_zarr`.
    data
        Rows in place of those in the model, by the names of its data containers: sources (`approxmcmc.sources`), such
        as columns of Parquet files, or arrays, which may be mapped. For data that do not fit into memory: write the
        model for a few rows, and pass all rows here.

    Returns
    -------
    PyMCTarget, PredictorsOfPyMC, IntegratedOfPyMC
        Its theta is the flat unconstrained vector, in the order of ``model.initial_point()``, without integrated
        effects; effects that are sampled scaled, and scales of integrated effects, have coordinates of their own. Draws
        are returned constrained, under the model's names, dims and coords, as from ``pm.sample``. The
        trace's attribute ``integrated`` says which effects were integrated out, or ``group_effects`` (and the target's
        attribute ``effects``) which group effects are sampled in what coordinates, and why.

    Raises
    ------
    IncompatibleError
        When the likelihood is not a sum over rows, or cannot be read row by row, or `integrate=True` finds no effects
        to integrate out; the message names the variable, the reason and a solution.
    InvalidInputError
        When `row_dim` is not a dim of the model, a row has no finite log-likelihood, `data` does not fit the model, or
        `integrate=True` comes with `data`, or a name in `deterministics` is unknown; the message names the row, the
        array or the argument.

    Notes
    -----
    Most likelihoods depend on theta through a few linear predictors, such as `X @ beta`, an intercept, `effect[group]`,
    offsets and sums of these, and through single parameters that all rows share, such as a scale or a shape. With K
    predictors an expansion then takes 1 + 2 K + K (K + 1) / 2 numbers a row and one pass; the plain graph takes 1 + d +
    d (d + 1) / 2 numbers and 2 + 2 d passes. Codes of categories cost one addition. For rows of its families (the page
    on models has the list) the library has its own terms, and PyTensor compiles only a prior that is not normal;
    without codes and offsets the target is a generalised linear model of the library, with an `lp` equal to that of the
    model up to a constant. For other distributions PyTensor compiles the terms as functions of the predictors.
    `explain` says which structure was found, or why none was found.

    Otherwise PyTensor compiles the terms of all rows. At construction these are evaluated in random groups of rows and
    compared with the full log-likelihood at three points: this finds dependence between rows that the graph hides.

    Many rows per group determine sigma z_j almost exactly, so z_j depends strongly on sigma: a curved ridge, which
    samplers follow slowly (Papaspiliopoulos, Roberts and Skoeld 2007). In a = sigma z the posterior is nearly normal;
    its density has the Jacobian factor ``sigma ** -J``, J the length of z. The posterior is the same, whatever else the
    model computes from z. If groups hardly differ, this density may have no mode, and the model's coordinates are kept.

    With `data` the graph is read from the model's own rows, and its terms are evaluated on all given rows, in blocks,
    at three points. Every array with rows must be named; float32 arrays are kept, and converted to the model's type row
    by row. The graph is compiled unchanged and group effects are sampled unscaled, as with `structure=False` and
    `scale_effects=False`: for a linear predictor of many parameters on such data write a `PredictorTarget`, with
    expansions of fewer numbers a row. `to_pymc` raises, because the model holds other rows.

    The model's data are read now. After ``pm.set_data`` make a new target: the old one raises.

    Examples
    --------
    >>> import numpy as np, pymc as pm, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> with pm.Model() as model:
    ...     beta = pm.Normal("beta", 0.0, 1.0, shape=2)
    ...     sigma = pm.HalfNormal("sigma", 1.0)
    ...     _ = pm.Normal("y", X @ beta, sigma, observed=X[:, 0] + rng.normal(size=1000))
    >>> amc.from_pymc(model)  # doctest: +SKIP
    PredictorsOfPyMC(y: 1000 rows; beta, sigma)
    """
    if integrate is True and data is not None:
        raise InvalidInputError(
            "from_pymc: integrate=True takes the rows of the model itself, so `data` must not be given; leave it out, "
            "or give integrate='auto' or False. Groups whose rows come from sources: targets.GroupedTarget or "
            "NormalGroups"
        )
    request = Request(
        row_dim, structure, scale_effects, integrate, latents, data, counts_compilation=integrate == "if cheaper"
    )
    description = without_discrete(ModelDescription(without_formula(model), request))
    refuse_discrete(description)
    plan = cheapest(description, [INTEGRATE_GROUPS] if integrate is True else WITH_TERMS)
    if plan is None:
        raise _why_no_plan(description)
    target = plan.make(description)
    target.returned.choose(deterministics)
    return target


def _why_no_plan(description: ModelDescription) -> Exception:
    """Return the error for a model that fits no plan that `from_pymc` may take, with faults as notes."""
    if description.request.integrate is True:
        reason = INTEGRATE_GROUPS.outcome(description)
        sentence = f"from_pymc: no effects can be integrated out: {reason.sentence}; give integrate='auto'"
    else:
        reason = COMPILED_ROWS.outcome(description)
        sentence = f"from_pymc: {reason.sentence}"
    error = reason.error
    if not isinstance(error, ApproxMCMCError):
        error = IncompatibleError(sentence)
        error.__cause__ = reason.error
    for fault in description.faults:
        error.add_note(fault)
    return error


@naming_the_arguments
def explain(model: Any, row_dim: str | None = None) -> str:
    r"""Return what was found in a model or target, and the plans to sample it, each with its price or its reason.

    Parameters
    ----------
    model
        A ``pm.Model``, a ``bambi.Model``, or a target.
    row_dim
        As for :func:`from_pymc`.

    Returns
    -------
    str
        First a line on the structure that was found, and on what a step reads. For a model then a line for each plan:
        why it does not fit, or its counted seconds for a run of 4 chains, compilation included. `sample` takes the
        cheapest plan, and then chooses a sampler by trials (`choose_sampler`), so these are not the seconds of a run of
        the chosen sampler.

    Raises
    ------
    IncompatibleError
        When the model has no free variable.

    Examples
    --------
    >>> import numpy as np, pymc as pm, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> with pm.Model() as model:
    ...     beta = pm.Normal("beta", 0.0, 1.0, shape=2)
    ...     _ = pm.Bernoulli("y", logit_p=X @ beta, observed=X[:, 0] > 0)
    >>> found, *plans = amc.explain(model).splitlines()
    >>> found.partition("; ")[0]
    'y, 100 rows: logit regression with 2 parameters in one linear predictor, normal priors'
    >>> print(*plans, sep="\n")
    plans, with the counted seconds of a run:
    - discrete variables summed out: no, the model has no discrete variable
    - effects of groups integrated out: no, no variable has an effect for each of several groups
    - rows by linear predictors: under 0.1 s, taken
    - rows of the graph: 10 s
    - whole chains by NUTS: 13 s
    """
    if isinstance(model, Target):
        return f"{model!r}: {explain_rows(model)}"
    model = without_formula(model)
    if not hasattr(model, "observed_RVs"):
        raise InvalidInputError(f"explain: model must be a model of PyMC or Bambi, or a target, found {model!r}")
    table = plan_table(model, row_dim)
    lines = [f"- {answer.plan.name}: {answer}" for answer in table.answers]
    # A plan may fit although one of its attempts ended in a fault.
    others = [f"- {fault}" for fault in table.faults if not any(fault in line for line in lines)]
    return "\n".join([_found(table.target), "plans, with the counted seconds of a run:", *lines, *others])


def _found(target: Any) -> str:
    """Return a sentence on the structure that was found in a model, and on what a step reads."""
    if isinstance(target, IntegratedOfPyMC):
        source = target.source
        sizes = f"{target.n_obs} terms, one per group, and {target.variables.size} parameters"
        return f"{source.rows.name}, {source.y.size} rows: {target.sentence}; {sizes} remain"
    without = f"{target.summed.sentence}; " if target.summed is not None else ""
    if target.why_no_terms:
        names = ", ".join(variable.name for variable in target.model.observed_RVs) or "nothing observed"
        return f"{without}{names}: no row is a term: {target.why_no_terms}"
    source = target.source
    rows = f"{source.rows.name}, {source.rows.n_rows} rows"
    effects = "".join(f"; {effect.reason}" for effect in source.effects)
    if isinstance(target, PredictorsOfPyMC):
        fast = "the library's fast code for linear predictors evaluates it"
        return f"{without}{rows}: {_describe(target)}; {fast}; {explain_rows(target)}{effects}"
    slow = "PyTensor compiles the model's graph unchanged, and an expansion stores about dim^2 numbers per row"
    return f"{without}{rows}: {target.why_no_structure}; {slow}{effects}"


def _describe(target: PredictorsOfPyMC) -> str:
    """Return a sentence on the structure that was found."""
    source = target.source
    prior = "normal priors" if isinstance(target.prior, NormalPrior) else "a prior compiled by PyTensor"
    dim = int(source.theta.type.shape[0])
    parameters = "1 parameter" if dim == 1 else f"{dim} parameters"
    law = rows_of_family(source)
    family = None if law is None else law.family
    single = target.likelihood.single
    prior = prior if target.weights is None else f"{prior}, rows with known weights"
    if family is not None and target.is_dense:
        return f"{family.name} regression with {parameters} in one linear predictor, {prior}"
    parts = f"with {parameters} in {_parts(target.design)}, {prior}"
    if family is not None and isinstance(single, FamilyLikelihood | ShapeLikelihood):
        return f"{family.name} regression {parts}"
    if isinstance(single, NormalLikelihood):
        return f"normal regression {parts}"
    if isinstance(single, SoftmaxLikelihood):
        return f"softmax regression {parts}"
    if isinstance(single, OrderedLikelihood):
        return f"ordered logistic regression {parts}"
    laws = " and ".join(law_name(variable) for variable in source.rows.variables)
    return f"{laws} {parts}, terms compiled by PyTensor"


def _parts(design: Design) -> str:
    """Return how many predictors differ from row to row, and how many have one value for all rows."""
    rows = [predictor for predictor in design.predictors if predictor.places or predictor.codes[0] < predictor.codes[1]]
    shared = design.n_predictors - len(rows)
    parts = f"{'one' if len(rows) == 1 else len(rows)} linear predictor{'s' if len(rows) > 1 else ''}"
    values = "one value" if shared == 1 else f"{shared} values"
    return f"{parts} and {values} that all rows share" if shared else parts
