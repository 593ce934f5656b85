"""What type checkers and editors see of the package: every name that `__init__.py` resolves on first use."""

from approxmcmc import (
    acceptance as acceptance,
    bounds as bounds,
    contracts as contracts,
    couplings as couplings,
    datasets as datasets,
    design as design,
    diagnostics as diagnostics,
    errors as errors,
    numerics as numerics,
    output as output,
    plots as plots,
    proposals as proposals,
    reference as reference,
    samplers as samplers,
    sources as sources,
    study as study,
    surrogate as surrogate,
    targets as targets,
    whole_chains as whole_chains,
)
from approxmcmc.acceptance import (
    AlwaysAccept as AlwaysAccept,
    ExactTest as ExactTest,
    MinibatchBarker as MinibatchBarker,
    PoissonTest as PoissonTest,
    SequentialTTest as SequentialTTest,
)
from approxmcmc.api import sample as sample
from approxmcmc.auditing import audit as audit
from approxmcmc.bounds import check_bound as check_bound
from approxmcmc.contracts import Target as Target
from approxmcmc.couplings import bias as bias, debias as debias
from approxmcmc.design import choose_sampler as choose_sampler
from approxmcmc.diagnostics import (
    as_trace as as_trace,
    compare_samplers as compare_samplers,
    cost_summary as cost_summary,
    diagnose as diagnose,
    latents as latents,
    risk as risk,
)
from approxmcmc.importance import importance_sampling as importance_sampling
from approxmcmc.interop.pymc import explain as explain, from_pymc as from_pymc
from approxmcmc.leave_one_out import log_likelihood as log_likelihood, loo_subsample as loo_subsample
from approxmcmc.numerics import laplace as laplace
from approxmcmc.output import load as load, save as save
from approxmcmc.plots import (
    plot_bias as plot_bias,
    plot_bound as plot_bound,
    plot_calibration as plot_calibration,
    plot_cost as plot_cost,
    plot_decisions as plot_decisions,
    plot_influential_rows as plot_influential_rows,
    plot_risk as plot_risk,
    plot_statistic as plot_statistic,
)
from approxmcmc.prediction import (
    posterior_predictive as posterior_predictive,
    predict as predict,
    predicted as predicted,
)
from approxmcmc.proposals import (
    Hamiltonian as Hamiltonian,
    Langevin as Langevin,
    RandomWalk as RandomWalk,
    StochasticGradientLangevin as StochasticGradientLangevin,
)
from approxmcmc.reference import reference_posterior as reference_posterior, stein_discrepancy as stein_discrepancy
from approxmcmc.resuming import resume as resume
from approxmcmc.samplers import (
    Exchange as Exchange,
    Firefly as Firefly,
    Gibbs as Gibbs,
    MetropolisHastings as MetropolisHastings,
)
from approxmcmc.study import Study as Study
from approxmcmc.surrogate import (
    ControlVariate as ControlVariate,
    SurrogateTransition as SurrogateTransition,
)
from approxmcmc.targets import (
    BetaRegression as BetaRegression,
    BinomialRegression as BinomialRegression,
    CloglogRegression as CloglogRegression,
    ExponentialRegression as ExponentialRegression,
    FunctionTarget as FunctionTarget,
    GammaRegression as GammaRegression,
    LinearRegression as LinearRegression,
    LogisticRegression as LogisticRegression,
    NegativeBinomialRegression as NegativeBinomialRegression,
    OrderedRegression as OrderedRegression,
    PoissonRegression as PoissonRegression,
    ProbitRegression as ProbitRegression,
    RobustRegression as RobustRegression,
    SoftmaxRegression as SoftmaxRegression,
    WeibullRegression as WeibullRegression,
)
from approxmcmc.updating import update as update
from approxmcmc.whole_chains import NUTS as NUTS

__version__: str
