"""Every variable that this library's own samplers may write to ``sample_stats``; NUTS of PyMC and nutpie adds others.

A value belongs to a kept draw. Counts and seconds are sums over its steps, those dropped by thinning included, so that
their sums over draws are totals, and rates are ratios of sums, never means of ratios. Other values say in their meaning
what they are.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class StatVariable:
    """One variable of ``sample_stats``: its type and its meaning.

    Parameters
    ----------
    name
        Name in the trace.
    dtype
        NumPy name of the type it is stored as.
    long_name
        A short label, as axes and table heads show it.
    meaning
        What is counted or measured, exactly.
    units
        ``"s"`` for seconds, ``"1"`` for everything else: counts, probabilities, log densities in nats.
    """

    name: str
    dtype: str
    long_name: str
    meaning: str
    units: str = "1"

    @property
    def attrs(self) -> dict[str, str]:
        """The attributes ``units`` and ``long_name`` that the variable has in the trace."""
        return {"units": self.units, "long_name": self.long_name}


SAMPLE_STATS: tuple[StatVariable, ...] = (
    StatVariable(
        "accepted",
        "bool",
        "proposal accepted",
        "Whether the proposal of the kept step was accepted. AlwaysAccept: always True; Firefly: the move of theta; "
        "Gibbs: not recorded.",
    ),
    StatVariable(
        "acceptance_rate",
        "float64",
        "acceptance probability",
        "Acceptance probability or its estimate, averaged over the steps of a draw. Sequential tests: min(1, exp(L)), "
        "L the estimated log ratio when the test stopped; AlwaysAccept: 1.",
    ),
    StatVariable(
        "datapoints_touched",
        "int64",
        "data points touched",
        "Terms read. A term counts once in each decision, minibatch of a proposal, and update of Firefly's z that "
        "reads it; the counts of all decisions of a Gibbs sweep and of all steps of a draw are added. Cached terms "
        "count.",
    ),
    StatVariable(
        "likelihood_evaluations",
        "int64",
        "likelihood evaluations",
        "Evaluations of one term at one parameter value; a term taken from a cache does not count. The first pass over "
        "the data, set-up and audits are counted elsewhere.",
    ),
    StatVariable(
        "gradient_evaluations",
        "int64",
        "gradient evaluations",
        "Gradients of one term at one parameter value.",
    ),
    StatVariable(
        "bound_evaluations",
        "int64",
        "bound evaluations",
        "Evaluations of a collapsed lower bound of the likelihood (Firefly).",
    ),
    StatVariable(
        "auxiliary_updates",
        "int64",
        "auxiliary updates",
        "Single-site or dyad updates of an auxiliary simulation (exchange family).",
    ),
    StatVariable(
        "decisions_made",
        "int64",
        "decisions made",
        "Decisions to accept or reject; one per variable in a Gibbs sweep; 0 with AlwaysAccept.",
    ),
    StatVariable(
        "decision_rounds",
        "int64",
        "decision rounds",
        "Batches of data (looks) that the decisions read before they stopped; ExactTest: 1 per decision.",
    ),
    StatVariable(
        "statistic_evaluations",
        "int64",
        "statistic evaluations",
        "Sufficient or change statistics evaluated by an auxiliary simulation.",
    ),
    StatVariable(
        "bright_count",
        "int64",
        "bright data points",
        "Number of bright rows, which Firefly reads, at the kept step.",
    ),
    StatVariable(
        "tolerance_stops",
        "int64",
        "stops by tolerance",
        "Decisions that stopped because the log ratio was known to within the absolute tolerance.",
    ),
    StatVariable(
        "range_violations",
        "int64",
        "range violations",
        "Decisions with terms further apart, or larger, than the bound given to their test; they read all data.",
    ),
    StatVariable(
        "events",
        "int64",
        "events",
        "Changes of the velocity of a piecewise deterministic process, refreshments included.",
    ),
    StatVariable(
        "row_events",
        "int64",
        "events by rows",
        "Events caused by a row of the data; `decisions_made` counts the rows proposed.",
    ),
    StatVariable(
        "out_of_reach",
        "int64",
        "proposals out of reach",
        "Proposals with an undefined (NaN or +inf) log density or gradient, rejected because the density falls by "
        "over 745 nats on the straight line to the proposal. The evaluations of this check count as evaluations.",
    ),
    StatVariable(
        "dark_proposals",
        "int64",
        "dark data proposed",
        "Dark rows that Firefly proposed to make bright.",
    ),
    StatVariable(
        "decisions_audited",
        "int64",
        "decisions audited",
        "Decisions that were repeated on all data with the same u; the other variables do not count their time and "
        "data.",
    ),
    StatVariable(
        "wrong_decisions",
        "int64",
        "wrong decisions",
        "Audited decisions that differ from the decision on all data. For MinibatchBarker such differences are noise, "
        "not bias.",
    ),
    StatVariable(
        "wrong_accepts",
        "int64",
        "wrong accepts",
        "Audited decisions in which the test accepted and the decision on all data rejects.",
    ),
    StatVariable(
        "audit_acceptance_error",
        "float64",
        "audited error of the acceptance probability",
        "Acceptance probability of the test minus that of the decision on all data, at the draw's last audited "
        "decision; a mean over random subsets. With an integer audit_every only MinibatchBarker records it. NaN "
        "without an audit.",
    ),
    StatVariable(
        "audit_acceptance_noise",
        "float64",
        "standard error of the audited error",
        "Standard error of `audit_acceptance_error` over the random subsets of that audit.",
    ),
    StatVariable(
        "audited_acceptance",
        "float64",
        "acceptance probability on all data",
        "Acceptance probability min(1, exp(Lambda)), or Barker's, of a step audited from the draw; NaN without an "
        "audit. For samplers without a test the step is one of a symmetric random walk with the covariance of the "
        "draws.",
    ),
    StatVariable(
        "audited_log_ratio",
        "float64",
        "log ratio on all data",
        "Log ratio Lambda of the step audited from the draw, prior and proposal included; -inf outside the support.",
    ),
    StatVariable(
        "audited_energy_change",
        "float64",
        "change of the log density",
        "Change of the log posterior density, log pi(theta') - log pi(theta), in the step audited from the draw.",
    ),
    StatVariable(
        "audited_tau",
        "float64",
        "scale of the terms",
        "tau = sqrt(N) S_l of the step audited from the draw, where S_l is the standard deviation of its N "
        "log-likelihood differences, or of their residuals if control variates are used.",
    ),
    StatVariable(
        "audited_kurtosis",
        "float64",
        "kurtosis of the terms",
        "Kurtosis N sum (l - mean)^4 / (sum (l - mean)^2)^2 of the terms l of the audited step; 3 for normal terms.",
    ),
    StatVariable(
        "log_ratio_variance",
        "float64",
        "variance of the estimated log ratio",
        "Estimated variance of the log ratio's estimate when the draw's last test stopped; 0 if it read all data. "
        "MinibatchBarker reads until this is below its target_variance.",
    ),
    StatVariable(
        "term_skewness",
        "float64",
        "skewness of the terms",
        "Skewness of the log-likelihood differences that the draw's last test read.",
    ),
    StatVariable(
        "skewness_ratio",
        "float64",
        "skewness ratio",
        "Largest |skewness| / sqrt(n) over the draw's tests, n the data read; a test that read all data counts as 0. "
        "Above 0.05 it is doubtful that the estimated log ratio is normal.",
    ),
    StatVariable(
        "max_term_ratio",
        "float64",
        "largest term ratio",
        "Largest |l - mean| / (s sqrt(n)) over the n terms of the draw's last test; 0 if it read all data. If many "
        "draws exceed 0.5, the terms are heavy-tailed, and it is doubtful that the statistic has Student's "
        "distribution.",
    ),
    StatVariable(
        "audited_mu_std",
        "float64",
        "standardised mean of the audited decision",
        "mu_std = (Lambda - log u) / tau on all data, of the draw's last audited decision; NaN without an audit. If "
        "estimates are normal, the error of a sequential test depends on the data only through this number.",
    ),
    StatVariable(
        "perf_counter_diff",
        "float64",
        "wall-clock time",
        "Wall-clock time of the draw on a monotonic clock, audits excluded.",
        units="s",
    ),
    StatVariable(
        "thread_time_diff",
        "float64",
        "processor time",
        "Processor time of the draw: its wall-clock times the share of a core that its thread had in the chunk of "
        "about 50 ms around it. On a machine that runs other programs it is what the draw would take alone.",
        units="s",
    ),
    StatVariable(
        "lp",
        "float64",
        "log posterior density",
        "Unnormalised log posterior density; written only where it is exact.",
    ),
    StatVariable(
        "log_weight",
        "float64",
        "log importance weight",
        "Log of target density over proposal density, not normalised; -inf where the target density is 0.",
    ),
    StatVariable(
        "weight",
        "float64",
        "importance weight",
        "Weight of the draw in every average, known up to a factor; not recorded if all draws have the same weight.",
    ),
    StatVariable(
        "expected_reads",
        "float64",
        "expected data read",
        "Mean of the Poisson number of rows read, given the two states, or given the path of a piecewise deterministic "
        "process; all rows if the sum was exact. `datapoints_touched` without the rows of a core has this mean, or a "
        "smaller one if decisions stop early.",
    ),
    StatVariable(
        "epsilon",
        "float64",
        "epsilon of the last test",
        "Epsilon of the draw's last sequential test; recorded if it changes along the chain. NaN if the proposal lay "
        "outside the support, so that no test ran.",
    ),
)

BY_NAME: dict[str, StatVariable] = {variable.name: variable for variable in SAMPLE_STATS}
