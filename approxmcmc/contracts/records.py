"""Names of what is recorded of every kept draw."""

# Columns of the integer and float records that a chain template fills for every kept draw. The output room names and
# documents each of them in its schema; the order here is the order in memory.
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
OPTIONAL_COUNTS = (  # written by the samplers and parts that declare them
    "gradient_evaluations",
    "bound_evaluations",
    "auxiliary_updates",
    "statistic_evaluations",
    "bright_count",
    "dark_proposals",
    "tolerance_stops",
    "range_violations",
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
)
