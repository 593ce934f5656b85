"""What a user does first, on an installed package: a model, its draws, what they cost, a plot, a file.

Run by ``nox -s package`` away from the sources, without anything but the package and what it requires.
"""

import sys
import time
from pathlib import Path

started = time.perf_counter()

import matplotlib

matplotlib.use("Agg")

import arviz as az

import approxmcmc as amc

X, y = amc.datasets.synthetic_logistic(n=5_000, d=10, seed=1)
target = amc.targets.LogisticRegression(X, y, prior_scale=1.0)
test = amc.SequentialTTest(epsilon=0.05, batch_size=500)
sampler = amc.MetropolisHastings(amc.RandomWalk(0.03), test)
trace = amc.sample(target, sampler, draws=2000, tune=500, random_seed=1, progressbar=False)
summary = az.summary(trace)
cost = amc.cost_summary(trace)
az.plot_trace(trace).savefig("trace.png")
amc.plot_cost({"austerity": trace}).savefig("cost.png")
amc.save(trace, "trace.nc")

installed = Path(amc.__file__).resolve()
assert "site-packages" in installed.parts, f"the sources were imported, not the package: {installed}"
assert len(summary) == 10
assert amc.load("trace.nc").posterior.equals(trace.posterior)
assert all(Path(name).stat().st_size > 10_000 for name in ("trace.png", "cost.png"))
for library in ("bokeh", "sklearn", "distributed", "jinja2", "nutpie"):
    assert library not in sys.modules, f"{library} belongs to an extra"
print(f"approxmcmc {amc.__version__} works: {time.perf_counter() - started:.1f} s with imports")
print(cost.T)
