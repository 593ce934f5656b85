"""
Data that grow
==============

Rows come in every day, and each morning the question is the same. A posterior of all rows does not need a pass over all
rows: the sums that a sampler was set up with are sums over rows, so new rows are added to them, and the posterior stays
exact. This page follows a shop for three weeks, on few rows, so that it runs in seconds.
"""

# %%
# The first day
# -------------
#
# A target with control variates is set up once. The set-up finds the mode, expands each row there, and bounds how far
# each row can be from its expansion; so a decision of :class:`approxmcmc.PoissonTest` is exact, and reads few rows.

import json
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import approxmcmc as amc

rng = np.random.default_rng(1)
truth = np.array([0.5, -0.3, 0.2])


def rows_of_a_day(n=2_000):
    X = rng.normal(size=(n, 3))
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ truth))).astype(float)
    return {"X": X, "y": y}


split = amc.ControlVariate(amc.LogisticRegression(**rows_of_a_day(20_000)))
proposal = amc.proposals.PreconditionedCrankNicolson(0.0, split.laplace)
sampler = amc.MetropolisHastings(proposal, amc.PoissonTest())
trace = amc.sample(split, sampler, draws=500, tune=50, chains=2, random_seed=1, progressbar=False)

# %%
# The next days
# -------------
#
# :func:`approxmcmc.update` appends the rows of a day and draws from the posterior of all rows, beginning from the draws
# of the day before. It expands the new rows at the old centre, adds their sums to the old ones, and checks whether the
# centre still serves.

folder = Path(tempfile.mkdtemp())
means = []
for day in range(1, 15):
    trace, split = amc.update(
        trace, split, rows_of_a_day(), block=f"day {day}", random_seed=day, draws=500, tune=50, progressbar=False
    )
    means.append(trace.posterior["beta"].values.reshape(-1, 3))
amc.save(split, folder / "shop")
print(split.n_obs, "rows,", len(split.blocks), "blocks")
print(f"rows read by a decision: {float(trace.sample_stats['datapoints_touched'].mean()):.2f}")

# %%
# The trace keeps the history. Each record says how many old rows were reused, how far the mode has moved from the
# centre, in posterior standard deviations, and why a new centre was placed, if so.

for record in json.loads(trace.posterior.attrs["updates"])[-3:]:
    centre = record["centre"]
    print(record["block"], record["rows_reused"], f"moved {centre['moved']:.2f}", centre["why"] or "the centre serves")

figure, axes = plt.subplots(figsize=(6, 3))
axes.errorbar(range(1, 15), [m[:, 0].mean() for m in means], [2 * m[:, 0].std() for m in means], fmt="o", ms=3)
axes.axhline(truth[0], color="0.6", lw=1)
axes.set(xlabel="day", ylabel=r"$\beta_0$, mean ± 2 sd")
figure.tight_layout()

# %%
# A day that does not fit
# -----------------------
#
# One morning the sensor of the first column is wired the wrong way round. The new rows are compared with the posterior
# of the earlier ones before anything is drawn: a warning names the day. With ``on_drift="raise"`` nothing is changed.

broken = rows_of_a_day()
broken["X"][:, 0] *= -1
try:
    amc.update(trace, split, broken, block="day 15", on_drift="raise", progressbar=False)
except amc.errors.InvalidInputError as error:
    print(error)

# %%
# If the fault is found later, the day is removed: its sums are dropped, not subtracted.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", amc.errors.SamplingWarning)
    _, bent = amc.update(trace, split, broken, block="day 15", random_seed=15, draws=100, progressbar=False)
clean = bent.remove("day 15")
print(np.abs(clean.laplace.mode - split.laplace.mode).max() < 1e-2)

# %%
# Kept until tomorrow
# -------------------
#
# The folder holds the rows, the numbers of each row, and the sums. The next process reads no row: it maps the files,
# appends the rows of the day, and writes only these. After a kill the folder holds the target of the day before, or the
# new one.

tomorrow = amc.load(folder / "shop")
tomorrow = tomorrow.append(**rows_of_a_day(), block="day 15")
amc.save(tomorrow, folder / "shop")
print(amc.load(folder / "shop").blocks.names[-2:])
