"""The pseudo-likelihood of a binary random field: the product of its full conditionals, without a normaliser.

    log PL(theta) = sum_i log P(y_i | rest, theta),    P(y_i = 1 | rest, theta) = 1 / (1 + exp(-theta'delta_i)),

where delta_i is what the statistics gain when site or dyad i is set to 1: a logistic regression on change statistics
(Besag 1974; Strauss and Ikeda 1990). Its terms are a tall data set, so every sampler of the library runs on it.
"""

from typing import Any

from approxmcmc.contracts import content_hash
from approxmcmc.errors import IncompatibleError
from approxmcmc.targets.exponential_family import ExponentialFamily, make_uniform_log_prior
from approxmcmc.targets.linear import LogisticRegression


class PseudoLikelihood(LogisticRegression):
    """The posterior with the pseudo-likelihood in place of the likelihood: the fast baseline of a random field.

    Parameters
    ----------
    target
        ``targets.Ising`` or ``targets.ERGM``; its prior is kept.

    Raises
    ------
    IncompatibleError
        When the target is not such a field.

    Notes
    -----
    Guarantee: biased. The mode is consistent for lattices, but the posterior is too narrow: the conditionals count each
    neighbour pair twice. The trace has the variables of the random field, so both compare with one gold standard.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> lattice = np.array([[1, 1, -1], [1, 1, -1], [1, -1, -1]])
    >>> amc.targets.PseudoLikelihood(amc.targets.Ising(lattice, prior_scale=1.0))
    PseudoLikelihood(n_obs=9, dim=1)
    """

    def __init__(self, target: ExponentialFamily) -> None:
        if not isinstance(target, ExponentialFamily):
            raise IncompatibleError(f"PseudoLikelihood needs targets.Ising or targets.ERGM, found {target!r}")
        response, design = target.change_statistics()
        if target.prior.normal is not None:
            super().__init__(design, response, prior_scale=target.prior.normal.scale)
        else:
            assert target.prior.bounds is not None
            super().__init__(design, response, prior=make_uniform_log_prior(*target.prior.bounds))
        self.variables, self._field_hash = target.variables, target.content_hash()

    def content_hash(self) -> str:
        """Return a hash of field and prior."""
        return content_hash("PseudoLikelihood", self._field_hash, super().content_hash())

    def to_pymc(self) -> Any:
        """Raise: a pseudo-likelihood is not a likelihood, so no PyMC twin exists."""
        raise IncompatibleError(f"{self!r} has no PyMC twin: a pseudo-likelihood is not a distribution of the data")
