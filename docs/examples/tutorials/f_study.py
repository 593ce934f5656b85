"""
A study of your own, and its report
===================================

One run of a sampler shows one chain on one afternoon. A study runs every setting several times, at equal cost, can be
resumed after an interruption, and makes a page with an interval for each number. The study here measures how much time
a sampler gains by occasional wrong decisions.
"""

# %%
# The question, declared
# ----------------------
#
# Targets are functions, so that data are loaded on first use. ``vary`` makes one setting for each value of a
# knob. Each setting gets half a second, six times, and 400 audits for its bias. A gold standard by NUTS is made unless
# you say ``gold=None``: here it would take longer than the rest.

import tempfile
from html import escape
from pathlib import Path
from types import SimpleNamespace

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic
from approxmcmc.study import Bias, Budget, Study, knob, vary
from approxmcmc.study.report import write_report


def regression():
    X, y = synthetic_logistic(n=10_000, d=5, seed=1)
    return amc.LogisticRegression(X, y, prior_scale=1.0)


def walk(epsilon):
    return amc.MetropolisHastings(amc.RandomWalk(0.03), amc.SequentialTTest(epsilon=epsilon, batch_size=500))


study = Study(
    name="price_of_errors",
    reference="Korattikara, Chen and Welling (2014), figure 2, on synthetic data",
    targets={"logistic": regression},
    samplers={
        "exact": amc.MetropolisHastings(amc.RandomWalk(0.03), amc.ExactTest()),
        "test": vary(walk, epsilon=knob(0.0, 0.05, 0.2)),
    },
    budget=Budget(seconds=0.5),
    tune=300,
    replicates=6,
    gold=None,
    bias=Bias(n_audits=400),
    presets={"smoke": {"replicates": 2}},
)
study.plan("paper")[["label", "replicate", "seed"]].head()

# %%
# Run it
# ------
#
# In a file below ``./studies`` this is ``approxmcmc run price_of_errors``; from a notebook it is one line. Finished
# cells stay in the store: after a kill, run the line again, and it draws the missing ones.

store = Path(tempfile.mkdtemp())
results = study.run("paper", store)
results.records[["label", "replicate", "status", "draws", "datapoints_touched", "wall_seconds"]].head(8)

# %%
# Look at it
# ----------
#
# Traces are returned by target and setting, and all plots of the library accept them. Risk is bias² + variance
# of a mean, here over the six replicates, against a long exact chain with better proposals.

target = regression()
exact = amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target)), amc.ExactTest())
reference = amc.sample(target, exact, draws=4000, tune=50, random_seed=2, progressbar=False)
risks = {label: amc.risk(traces, reference) for (_, label), traces in results.traces().items()}
amc.plot_risk(risks, coords={"estimand": ["beta[x0]", "beta[x1]"]})

# %%
# The report
# ----------
#
# The page begins with the answer, then shows figures, and ends with how it was made: machine, versions, seeds, cells
# that failed or were disturbed. It is one file that opens without a network; figures and tables are also saved as
# SVG and CSV.

page = write_report(results, store / "report")
print(*sorted(str(path.relative_to(store)) for path in (store / "report").rglob("*.svg")), sep="\n")

# %%
# The whole page:

html = escape(page.read_text(encoding="utf-8"))
SimpleNamespace(_repr_html_=lambda: f'<iframe class="report" title="The report" srcdoc="{html}"></iframe>')

# %%
# Half a second is enough for a tutorial but not for an answer: the intervals are wide. The studies of
# this project take minutes to hours, and their pages look the same. All fields, the command line and what happens
# after a change are on :doc:`/studies`; :doc:`g_own_sampler` adds your own sampler to the comparison.
