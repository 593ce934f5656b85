"""MALA-exchange on two networks: does it move? Rows of tables 1 and 2, with kept and with new graphs.

Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, sections 3.5, 3.6 and 4.2. The drift at theta is estimated
from N graphs drawn at theta. They may be those of the step that led to theta, the default of
`approxmcmc.samplers.MALAExchange`, or be drawn anew in each step. With an exact test both leave the posterior
invariant, and the text of the paper that we have does not say which it does. Chains stay at one point for hundreds or
thousands of steps, with new graphs too. Kept graphs last as long as the stay.

The mean of two-stars on the Florentine network is .070 in the exact posterior, and the paper prints .136. With new
graphs, beyond the runs of this study (standard errors over chains; a long stay is one of over 100 steps):

| auxiliary graphs | steps | mean | without long stays | steps in long stays |
|---|---|---|---|---|
| 1000 updates | 8 x 20 000 | .175 +- .010 | .147 +- .002 | 14 % |
| 10 000 updates | 6 x 1500 | .097 +- .005 | .094 +- .003 | 1 % |
| exact | 4 x 200 | .048 +- .015 | .048 +- .015 | 0 |

So both make the mean too large. Most of the shift comes from the short auxiliary chains, which rarely enter the dense
phase; the rest from the stays, the longest of which were near (-3.4, .42), at the edge of the posterior. Whether longer
auxiliary chains end the stays is not known, because their runs were short. Exchange with a random walk, which has no
such stays, has .130 with 1000 updates and .098 with 10 000 (`noisy_florentine`).

Steps are those that accept about a quarter while the chain moves, 1.5 covariances of the Florentine posterior and 1.1
of the molecule's; the paper, too, chose them by pilot runs. Auxiliary chains are as in the paper: 1000 updates from the
observed graph, then every fourth of 200 (N = 50).
"""

import dataclasses

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Component, Sampler
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.intervals import share_interval
from approxmcmc.study.report.svg import COLOURS, subplots
from studies import noisy_florentine, noisy_molecule
from studies.tools.noisy_paper import TABLE_1, TABLE_2, table_of_moments
from studies.tools.published import moments_of

NAMES = noisy_molecule.NAMES  # the first two are those of the Florentine network
STEPS = {"business": 1.5, "molecule": 1.1}  # step sizes in covariances of the posterior
METRIC = {"business": np.array(noisy_florentine.COVARIANCE), "molecule": np.array(noisy_molecule.COVARIANCE)}
PRINTED = {"business": (TABLE_1, "table 1"), "molecule": (TABLE_2, "table 2")}
SHOWN = 400  # points of a chain in the picture
LONG = 100  # steps of a stay that counts as long


def network_of(target) -> str:
    """Return the name of a target, by its number of parameters."""
    return "business" if target.variables.size == 2 else "molecule"


@dataclasses.dataclass(frozen=True, eq=False)
class NetworkMALA(Component, Sampler):
    """MALA-exchange whose step, of the size `steps` names for its network, has the shape of that posterior."""

    noisy: bool
    refresh: bool
    steps: dict[str, float]

    def build(self, target, *, audit_every=None):
        """Make the sampler in the metric of the network, and build it."""
        auxiliary = amc.targets.AuxiliaryChain(noisy_florentine.UPDATES, "observed", thin=noisy_florentine.THIN)
        how = {"noisy": self.noisy, "refresh": self.refresh, "auxiliary": auxiliary, "n_auxiliary": 50}
        name = network_of(target)
        mala = amc.samplers.MALAExchange(self.steps[name], cov=METRIC[name], **how)
        return mala.build(target, audit_every=audit_every)


def start(target, rng):
    """Return a point near the centre of the posterior."""
    near = noisy_florentine.start if target.variables.size == 2 else noisy_molecule.start
    return near(target, rng)


def stays_of(trace) -> np.ndarray:
    """Return the numbers of draws between moves of a one-chain trace."""
    theta = trace["posterior"]["theta"].to_numpy()[0]
    moved = (np.diff(theta, axis=0) != 0.0).any(axis=1)
    return np.diff(np.flatnonzero(np.concatenate([[True], moved, [True]])))


def stays(results) -> list:
    """Tabulate acceptance and the longest stay at one point, and draw the chains."""
    import pandas as pd

    rows = []
    points = []
    targets = list(results.study.targets)
    settings = [setting.label for setting in results.study.settings()]
    figure, axes = subplots(
        len(targets), len(settings), figsize=(12.0, 2.4 * len(targets)), squeeze=False, sharey="row"
    )
    for (target, label), traces in results.traces().items():
        lengths = [stays_of(trace) for trace in traces]
        row = {"network": target, "sampler": label}
        row |= share_interval([float(t["sample_stats"]["acceptance_rate"].mean()) for t in traces]).columns(
            "acceptance"
        )
        row |= share_interval([float(n[n > LONG].sum() / n.sum()) for n in lengths]).columns("share of long stays")
        row |= {"longest stay": max(int(n.max()) for n in lengths), "steps": traces[0]["posterior"].sizes["draw"]}
        rows.append(row)
        panel = axes[targets.index(target), settings.index(label)]
        for k, trace in enumerate(traces):
            theta = trace["posterior"]["theta"].to_numpy()[0, :, 0]
            shown = np.arange(0, len(theta), max(1, len(theta) // SHOWN))
            panel.plot(shown, theta[shown], color=COLOURS[k % len(COLOURS)], linewidth=0.7)
            points += [
                {"network": target, "sampler": label, "chain": k, "step": int(n), "edges": theta[n]} for n in shown
            ]
        panel.set_title(f"{target}: {'noisy, ' if 'noisy' in label else ''}{'anew' if 'True' in label else 'kept'}")
    for panel in axes[:, 0]:
        panel.set_ylabel("parameter of edges")
    seen = "The parameter of edges in every chain, by step. A level stretch is a chain that does not move."
    caption = (
        f"Acceptance, and share of the steps in stays of more than {LONG} steps at one point: means over chains with "
        "Student intervals. Last: the longest stay of any chain, and the steps of a chain."
    )
    return [
        Figure("Chains with kept and with new graphs", seen, figure, pd.DataFrame(points)),
        Table("Acceptance and stays", caption, pd.DataFrame(rows)),
    ]


def printed() -> dict:
    """Return the rows of MALA-exchange in tables 1 and 2."""
    return {
        f"{network}, {name}": dataclasses.replace(value, target=network, setting=f"{value.setting}[refresh=True]")
        for network, (table, source) in PRINTED.items()
        for name, value in table_of_moments(
            {row: table[row] for row in ("mala_exchange", "noisy_mala")}, NAMES[: len(METRIC[network])], source
        ).items()
    }


study = Study(
    name="noisy_mala",
    reference="Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 4.2, MALA in tables 1 and 2",
    names={
        "mala_exchange": "MALA exchange",
        "noisy_mala": "noisy MALA",
    },
    targets={"business": noisy_florentine.business, "molecule": noisy_molecule.bonds},
    samplers={
        "mala_exchange": vary(NetworkMALA, noisy=False, refresh=knob(True, False), steps=STEPS),
        "noisy_mala": vary(NetworkMALA, noisy=True, refresh=knob(True, False), steps=STEPS),
    },
    budget=Budget(seconds=100.0),
    audit_every=None,
    replicates=8,
    gold=None,
    seed=2016,
    start=start,
    analyses=(stays,),
    measures=moments_of("theta", NAMES),
    paper_values=printed(),
    presets={
        "smoke": {"budget": Budget(draws=200), "replicates": 2},
        "quick": {"budget": Budget(draws=2000), "replicates": 2},
        "published": {"budget": Budget(draws=5000), "replicates": 5},
    },
)
