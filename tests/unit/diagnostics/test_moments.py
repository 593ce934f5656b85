"""A table of moments as gold standard: the same numbers as draws with these moments, in any form of a table."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from approxmcmc.diagnostics import as_reference, compare_samplers, risk
from approxmcmc.errors import GoldStandardError
from approxmcmc.study import standard_estimands
from tests.unit.diagnostics.test_standard import LABELS, SCALE, runs

CLOSED = {"mean": [5.0] * 3, "sd": list(SCALE), "mcse_mean": [0.0] * 3}
ROWS = pd.DataFrame(CLOSED, index=[f"beta[{label}]" for label in LABELS])
FORMS = {
    "rows": ROWS,
    "rows in another order": ROWS.iloc[[2, 0, 1]],
    "arrays by variable": {"beta": {**CLOSED, "mcse_mean": 0.0}},
    "names from 1 on, as posteriordb": {"names": ["beta[1]", "beta[2]", "beta[3]"], **CLOSED},
    "the moments of a gold standard": xr.DataTree.from_dict({
        "reference_moments": xr.Dataset(
            {"beta": (("moment", "coef"), [CLOSED["mean"], CLOSED["sd"], CLOSED["mcse_mean"]])},
            coords={"moment": ["mean", "sd", "mcse"], "coef": LABELS},
        )
    }),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:The coordinates of 'beta' are matched by position")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_judged_as_the_closed_form(form):
    wide = {"exact": runs(1), "wide": runs(2, change=lambda z: 2.0 * z)}
    table = compare_samplers(wide, FORMS[form], n_bootstrap=10)
    errors = (wide["exact"]["posterior"]["beta"].mean("draw").to_numpy() - 5.0)[:, :] ** 2
    assert table["risk"]["exact"] == pytest.approx(errors.mean(), rel=1e-9)
    assert table["sd_ratio"]["wide"] == pytest.approx(2.0, abs=0.1)
    assert "is 2 times that of the reference" in table["warning"]["wide"]
    assert table["warning"]["exact"] == ""


def test_the_error_of_a_mean_is_subtracted():
    """risk = mean square error - e^2, and the second moment of z has twice the relative error of the sd."""
    exact = ROWS.assign(mcse_mean=0.1 * SCALE, mcse_sd=0.05 * SCALE)
    gap = risk(runs(1), ROWS, n_bootstrap=5, n_grid=1) - risk(runs(1), exact, n_bootstrap=5, n_grid=1)
    np.testing.assert_allclose(gap.risk.to_numpy()[:, 0], (0.1 * SCALE) ** 2, rtol=1e-8)
    known = standard_estimands(as_reference(exact)["reference_moments"].to_dataset())
    mean, sd, mcse = known["posterior variances"].of_moments()
    np.testing.assert_allclose([mean, sd, mcse], [[1.0] * 3, [np.sqrt(2.0)] * 3, [0.1] * 3])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (ROWS.drop(columns="sd"), r"lacks \['sd'\]"),
        (ROWS.drop(columns="mcse_mean"), r"the standard error of the mean \(0.0 of a closed form\)"),
        (ROWS.assign(sd=0.0), "standard deviations above 0"),
        (pd.concat([ROWS, ROWS]), "is there twice"),
        ({"beta": [5.0] * 3}, "a dict with `mean`, `sd` and `mcse_mean`"),
        (ROWS.iloc[:2], "the reference lacks beta"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(table, words):
    with pytest.raises(GoldStandardError, match=words):
        risk(runs(1), table, n_bootstrap=5, n_grid=1)


def test_a_function_that_needs_draws_says_so():
    with pytest.raises(GoldStandardError, match="needs draws of the gold standard"):
        risk(runs(1), ROWS, estimands={"odds": lambda posterior: np.exp(posterior["beta"])}, n_bootstrap=5)
