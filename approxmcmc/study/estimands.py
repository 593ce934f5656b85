"""Estimands that make posteriors of different scales comparable, in units of the gold standard."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

MEANS, VARIANCES, TAILS = "posterior means", "posterior variances", "tail probabilities"
FAR = 2.0  # posterior standard deviations


def standard_estimands(reference: xr.Dataset) -> Mapping[str, Callable[[xr.Dataset], xr.DataArray]]:
    r"""Means, variances and tail probabilities of all coordinates, in standard deviations of the gold standard.

    With mean :math:`m_j` and standard deviation :math:`s_j` of coordinate j in the gold standard, the posterior
    averages of

    .. math:: z_j = (\theta_j - m_j) / s_j, \qquad z_j^2, \qquad 1\{|z_j| > 2\}.

    A risk of 0.01 in the first is a typical error of a tenth of a posterior standard deviation, in the second of 10 %
    of a variance.

    Parameters
    ----------
    reference
        Posterior of the gold standard, dims (chain, draw, ...).

    Returns
    -------
    dict
        Functions of a posterior Dataset with the same variables; each returns an array of dims (chain, draw,
        parameter). Name them in `Study(average_over=...)` to get one risk for all coordinates.

    Examples
    --------
    >>> draws = xr.Dataset({"beta": (("chain", "draw", "coef"), np.arange(12.0).reshape(2, 3, 2))})
    >>> estimands = standard_estimands(draws)
    >>> list(estimands)
    ['posterior means', 'posterior variances', 'tail probabilities']
    >>> round(float(estimands["posterior variances"](draws).mean()), 12)
    1.0
    """
    names = [str(name) for name in reference.data_vars]

    def flat(posterior: xr.Dataset) -> xr.DataArray:
        arrays = [posterior[name].transpose("chain", "draw", ...).to_numpy() for name in names]
        values = np.concatenate([array.reshape(*array.shape[:2], -1) for array in arrays], axis=2)
        return xr.DataArray(values, dims=("chain", "draw", "parameter"))

    truth = flat(reference)
    mean, sd = truth.mean(("chain", "draw")), truth.std(("chain", "draw"))

    def z(posterior: xr.Dataset) -> xr.DataArray:
        return (flat(posterior) - mean) / sd

    return {
        MEANS: z,
        VARIANCES: lambda posterior: z(posterior) ** 2,
        TAILS: lambda posterior: (abs(z(posterior)) > FAR).astype(np.float64),
    }


ALL_STANDARD = (MEANS, VARIANCES, TAILS)
