"""Names of the records of every kept draw."""

import math

import numpy as np

# Columns of the integer and float records that a chain fills for every kept draw. `output` names and documents
# them in its schema; the order here is the order in memory.
CORE_COUNTS = (
    "datapoints_touched",
    "likelihood_evaluations",
    "decisions_made",
    "decision_rounds",
    "decisions_audited",
    "wrong_decisions",
    "wrong_accepts",
    "accepted",
)
OPTIONAL_COUNTS = (  # filled only by the samplers, proposals and tests that declare them
    "gradient_evaluations",
    "bound_evaluations",
    "auxiliary_updates",
    "statistic_evaluations",
    "bright_count",
    "dark_proposals",
    "tolerance_stops",
    "range_violations",
    "events",
    "row_events",
    "out_of_reach",
)
COUNT_NAMES = CORE_COUNTS + OPTIONAL_COUNTS
VALUE_NAMES = (
    "acceptance_rate",
    "perf_counter_diff",
    "lp",
    "max_term_ratio",
    "audited_mu_std",
    "log_ratio_variance",
    "term_skewness",
    "skewness_ratio",
    "audit_acceptance_error",
    "audit_acceptance_noise",
    "epsilon",
    "weight",
    "expected_reads",
    "thread_time_diff",
)

# Column indices, for compiled code.
TOUCHED = COUNT_NAMES.index("datapoints_touched")
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
DECISIONS = COUNT_NAMES.index("decisions_made")
ROUNDS = COUNT_NAMES.index("decision_rounds")
AUDITS = COUNT_NAMES.index("decisions_audited")
WRONG = COUNT_NAMES.index("wrong_decisions")
WRONG_ACCEPTS = COUNT_NAMES.index("wrong_accepts")
ACCEPTED = COUNT_NAMES.index("accepted")
GRADIENTS = COUNT_NAMES.index("gradient_evaluations")
BOUNDS = COUNT_NAMES.index("bound_evaluations")
UPDATES = COUNT_NAMES.index("auxiliary_updates")
STATISTICS = COUNT_NAMES.index("statistic_evaluations")
BRIGHT = COUNT_NAMES.index("bright_count")
DARK = COUNT_NAMES.index("dark_proposals")
TOLERANCE_STOPS = COUNT_NAMES.index("tolerance_stops")
VIOLATIONS = COUNT_NAMES.index("range_violations")
EVENTS = COUNT_NAMES.index("events")
ROW_EVENTS = COUNT_NAMES.index("row_events")
OUT_OF_REACH = COUNT_NAMES.index("out_of_reach")

ACCEPTANCE_RATE = VALUE_NAMES.index("acceptance_rate")
SECONDS = VALUE_NAMES.index("perf_counter_diff")
LP = VALUE_NAMES.index("lp")
MAX_TERM_RATIO = VALUE_NAMES.index("max_term_ratio")
MU_STD = VALUE_NAMES.index("audited_mu_std")
VARIANCE = VALUE_NAMES.index("log_ratio_variance")
SKEWNESS = VALUE_NAMES.index("term_skewness")
SKEWNESS_RATIO = VALUE_NAMES.index("skewness_ratio")
AUDIT_ERROR = VALUE_NAMES.index("audit_acceptance_error")
AUDIT_NOISE = VALUE_NAMES.index("audit_acceptance_noise")
EPSILON = VALUE_NAMES.index("epsilon")
DRAW_WEIGHT = VALUE_NAMES.index("weight")
EXPECTED_READS = VALUE_NAMES.index("expected_reads")
THREAD_SECONDS = VALUE_NAMES.index("thread_time_diff")

# Initial values of a draw's records. Those in NOT_WRITTEN stay NaN if no audit or decision fills them.
NOT_WRITTEN = {"audited_mu_std", "audit_acceptance_error", "audit_acceptance_noise", "epsilon"}
BLANK_VALUES = np.array([math.nan if name in NOT_WRITTEN else 0.0 for name in VALUE_NAMES])

AUDIT_COUNTS = ("decisions_audited", "wrong_decisions", "wrong_accepts")
ENOUGH_AUDITS = 50  # enough to detect bias: they detected a wrong answer on Covertype in 97 of 100 runs
