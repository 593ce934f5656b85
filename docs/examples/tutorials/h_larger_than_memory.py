"""
Larger than memory
==================

A file of numbers can be used directly as data: it is mapped, never loaded, and a sampler that reads few rows reads few
rows of the file. This page has four hundred thousand rows, so that it runs in seconds; with a thousand times as many
only the time changes.
"""

# %%
# A file, written piece by piece
# ------------------------------
#
# Data that do not fit in memory must be written in pieces. NumPy maps a file of doubles, and one piece at a time is
# written to it.

import tempfile
import tracemalloc
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import approxmcmc as amc

n, d, piece = 400_000, 50, 20_000
folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(1)
truth = rng.normal(0, 0.2, d)
X = np.memmap(folder / "X.f64", dtype=np.float64, mode="w+", shape=(n, d))
y = np.memmap(folder / "y.f64", dtype=np.float64, mode="w+", shape=(n,))
for start in range(0, n, piece):
    rows = slice(start, start + piece)
    X[rows] = rng.normal(size=(piece, d))
    y[rows] = rng.random(piece) < 1 / (1 + np.exp(-X[rows] @ truth))
X.flush()
y.flush()
print(f"{X.nbytes / 1e6:.0f} MB on disk")

# %%
# A target on the file
# --------------------
#
# Opened for reading, the file is the target's data, without a copy.

X = np.memmap(folder / "X.f64", dtype=np.float64, mode="r", shape=(n, d))
y = np.memmap(folder / "y.f64", dtype=np.float64, mode="r", shape=(n,))
plain = amc.LogisticRegression(X, y, prior_scale=1.0)
print("the target's data are the file:", np.shares_memory(plain.X, X))

# %%
# A sampler that reads few rows
# -----------------------------
#
# On this many rows a posterior is narrow, and all rows together decide each step. Control variates replace most of this
# information by a quadratic (:doc:`/samplers/control_variates`): set-up reads the file about a dozen times, a step a
# few hundred rows. Two numbers for each row are stored, for any number of columns: in a file, because the data are in
# one.

target = amc.ControlVariate(plain)
proposal = amc.proposals.Independence(target.laplace)
test = amc.SequentialTTest(epsilon=0.05, batch_size=64, growth=2, tol=0.05)

# %%
# A t-test reads blocks of a shuffled copy, so that contiguous rows are a random sample. The copy is as large as the
# data. ``shuffled_copy="disk"`` writes it to a file in the package's cache folder, or in a folder that you name. Its
# space is reserved before anything is written, and all later runs on the same data use the file.

sampler = amc.MetropolisHastings(proposal, test, shuffled_copy=str(folder))
settings = {"chains": 2, "random_seed": 1, "audit_every": 50, "progressbar": False}
with warnings.catch_warnings(action="ignore", category=amc.errors.SamplingWarning):
    amc.sample(
        target, sampler, draws=10, **settings
    )  # Too few draws to use: this run compiles the code, so that the memory counted below is that of the sampling.
tracemalloc.start()
trace = amc.sample(target, sampler, draws=2000, **settings)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
print(f"most that the run took of memory: {peak / 1e6:.0f} MB; its data: {X.nbytes / 1e6:.0f} MB, twice on disk")

# %%
# What a step read
# ----------------

attrs = trace.posterior.attrs
print("order of the data:", attrs["data_order"], "of", attrs["block_size"], "rows")
print(amc.cost_summary(trace)[["draws", "data_fraction", "wrong_decision_rate", "seconds"]])
amc.plot_decisions(trace, coords={"draw": slice(0, 500)}, visuals={"ylabel": {"text": "rows read"}})

# %%
# The answer
# ----------

draws = trace.posterior["beta"]
mean, sd = draws.mean(("chain", "draw")).values, draws.std(("chain", "draw")).values
figure, axes = plt.subplots(figsize=(7.6, 3.2), layout="constrained")
axes.errorbar(np.arange(d), mean - truth, 2 * sd, fmt=".", label="posterior mean ± 2 sd, less the truth")
axes.axhline(0, color="gray", linewidth=1)
axes.set(xlabel="coefficient", ylabel="difference", ylim=(-0.025, 0.025))
axes.legend(fontsize=9)

# %%
# More on blocks, copies and their cost: :doc:`/data_order`.
