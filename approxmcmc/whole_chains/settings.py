"""The component `NUTS`: settings of the no-U-turn sampler, and which library runs it."""

import dataclasses
import importlib.util
import numbers
from typing import Any

from approxmcmc.contracts import NamedDraws, WholeRun, WholeSampler, pymc_model_of
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.messages import tell
from approxmcmc.errors import ApproxMCMCError, IncompatibleError, InvalidInputError
from approxmcmc.whole_chains.run import draw_chains

BACKENDS = ("nutpie", "pymc")
ADAPTATIONS = ("diag", "draw_diag", "low_rank")  # nutpie's names of its mass matrices
TUNE = {"nutpie": 400, "pymc": 1000}  # default tuning steps of each library


@dataclasses.dataclass(frozen=True, eq=False)
class NUTS(WholeSampler):
    r"""The no-U-turn sampler, on all data, by nutpie or by PyMC.

    Each draw simulates Hamiltonian dynamics :math:`\dot\theta = M^{-1} p,\ \dot p = \nabla \log \pi(\theta)` by
    leapfrog steps, forward and backward until the trajectory turns around, and takes a point of it with probability in
    proportion to its density [1]_. A leapfrog step is one gradient on all data.

    Guarantee: asymptotically exact. Divergences, which `diagnose` counts, are a sign of regions that the trajectories
    do not enter. A target that is not a PyMC model runs as its PyMC twin. Discrete parameters, and those without a
    gradient, are moved by the step methods that `pm.sample` chooses, in turn with NUTS for the others.
    Chains start in pairs, at the initial point of the model plus and minus U(-1, 1) on the unconstrained scale, so that
    two modes that mirror each other each have a chain.

    nutpie takes the scales of the coordinates from draws and gradients. If a chain does not move in the last quarter of
    tuning (at least 50 steps), all chains start again, with scales from the draws alone; a message says so. The counts
    and seconds of the first tuning step then include those of the chains that were replaced. The trace attribute
    `adaptation` is ``"diag"``, or ``"draw_diag"`` after such a start, and empty by PyMC.

    Parameters
    ----------
    tune
        Steps that adapt the step size and a diagonal mass matrix; ``sample(tune=...)`` overrides this. None: 400
        by nutpie, 1000 by PyMC.
    target_accept
        Acceptance rate that the step size is tuned to; larger means smaller steps and fewer divergences.
    backend
        ``"nutpie"`` or ``"pymc"``. None: nutpie if it is installed (``pip install "approxmcmc[nutpie]"``) and can
        compile the model, else PyMC, and a message says why.
    adaptation
        Mass matrix of nutpie: ``"diag"``, from draws and gradients; ``"draw_diag"``, from draws; or ``"low_rank"``.
        None: ``"diag"``, and ``"draw_diag"`` if a chain does not move. PyMC ignores it.
    non_centred
        Whether to sample each effect x of a normal, Student-t, Cauchy, Laplace or logistic distribution with an
        unknown scale as location + scale z. The trace has x.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.
    MissingExtraError
        When nutpie is requested and not installed; by ``amc.sample``.

    References
    ----------
    .. [1] M. D. Hoffman, A. Gelman (2014). The No-U-Turn Sampler. Journal of Machine Learning Research 15; with
       multinomial sampling of the trajectory, M. Betancourt (2017), arXiv:1701.02434.

    Examples
    --------
    >>> amc.NUTS(target_accept=0.95)
    NUTS(tune=None, target_accept=0.95, backend=None, adaptation=None, non_centred=False)
    >>> trace = amc.sample(model, amc.NUTS())  # doctest: +SKIP
    """

    tune: int | None = None
    target_accept: float = 0.8
    backend: str | None = None
    adaptation: str | None = None
    non_centred: bool = False

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.tune is not None:
            checked_integer(self.tune, "tune", 0)
        if not (isinstance(self.target_accept, numbers.Real) and 0.0 < float(self.target_accept) < 1.0):
            raise InvalidInputError(f"NUTS: target_accept must lie between 0 and 1, found {self.target_accept!r}")
        if self.backend not in (None, *BACKENDS):
            raise InvalidInputError(f'NUTS: backend must be "nutpie", "pymc" or None, found {self.backend!r}')
        if self.adaptation not in (None, *ADAPTATIONS):
            raise InvalidInputError(f"NUTS: adaptation must be one of {ADAPTATIONS} or None, found {self.adaptation!r}")
        if not isinstance(self.non_centred, bool):
            raise InvalidInputError(f"NUTS: non_centred must be True or False, found {self.non_centred!r}")

    def library(self, target: Any) -> str:
        """Return which library runs this on a target: ``"nutpie"`` or ``"pymc"``.

        Raises
        ------
        IncompatibleError
            When nutpie is requested, and the model has discrete parameters.
        """
        discrete = [variable.name for variable in pymc_model_of(target).discrete_value_vars]
        if self.backend == "nutpie" and discrete:
            raise IncompatibleError(
                f"NUTS: nutpie needs continuous parameters, and the model has the discrete {discrete}; leave backend "
                "out, and PyMC moves them by other step methods"
            )
        return self.backend or ("pymc" if discrete else preferred())

    def tuning_steps(self, target: Any) -> int:
        """Return `tune`, or the default of the library."""
        return TUNE[self.library(target)] if self.tune is None else self.tune

    def why_not(self, target: Any) -> str:
        """Return why the target has no PyMC model that the library can run; "" if it has one."""
        try:
            self.library(target)
        except ApproxMCMCError as refusal:
            return str(refusal)
        return ""

    def why_not_invariant(self, target: Any) -> str:
        """Return "": after tuning, each step leaves the target's distribution invariant."""
        return ""

    def run(self, target: Any, asked: WholeRun) -> NamedDraws:
        """Draw all chains; see :class:`approxmcmc.contracts.WholeSampler`."""
        library = self.library(target)
        insist = self.backend is not None
        if not insist and preferred() == "pymc":
            tell('NUTS by PyMC: nutpie is not installed; it is usually faster: pip install "approxmcmc[nutpie]"')
        return draw_chains(
            target,
            asked,
            library,
            target_accept=float(self.target_accept),
            adaptation=self.adaptation,
            non_centred=self.non_centred,
            insist=insist,
        )

    def continues(self, target: Any) -> bool:
        """Return whether a longer run continues the chains: True by nutpie, while PyMC starts again from step 0."""
        return self.library(target) == "nutpie"


def preferred() -> str:
    """Return which NUTS runs continuous models: ``"nutpie"`` if it is installed, else ``"pymc"``."""
    return "nutpie" if importlib.util.find_spec("nutpie") else "pymc"
