"""Do small errors of decisions add up? What a test errs in a step, times the steps in which a chain forgets.

A chain whose acceptance probability is off by delta in each step drifts away from the posterior until it forgets. With
tau the number of steps per effective draw, E|alpha^ - alpha| tau is of the order of the distance in total variation
(of the bound by meeting times, with the autocorrelation time in their place). A random walk of 50 steps per effective
draw and a t-test that errs by 0.02 is far off, though each of its decisions is nearly right.
"""

import math
from collections.abc import Iterable

from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.gates import DECIDE_BETTER, QUANTILE, STANDARD_ERRORS, Gate

# Measured on a logistic regression, a walk with SequentialTTest(0.05): spreads are 12 % too wide at 0.26.
LARGEST = 0.1


def accumulated_error(gates: Iterable[Gate], convergence: Iterable[Finding], steps: int) -> list[Finding]:
    """Judge the errors of a test beside the autocorrelation of its chains; nothing where either is not known.

    It fires where the product of E|alpha^ - alpha| and the steps per effective draw is above `LARGEST`: by the lower
    end of its interval, or with an error of decisions that is more than three standard errors above 0. Absolute errors
    are skewed, and few audits may leave the second in doubt where the first is far beyond the limit.

    Parameters
    ----------
    gates, convergence
        What audits and ArviZ say of the run.
    steps
        Steps of all chains together.
    """
    error = next((gate for gate in gates if gate.name == "acceptance_error"), None)
    ess = next((found.value for found in convergence if found.check == "bulk ESS"), math.nan)
    if error is None or not ess > 0.0 or not math.isfinite(error.lower):
        return []
    memory = steps / ess
    value, standard_error = error.value * memory, (error.value - error.lower) / QUANTILE
    is_sure = error.lower * memory > LARGEST or error.value > STANDARD_ERRORS * standard_error
    fires = value > LARGEST and is_sure
    return [
        Finding(
            "accumulated error",
            "warning" if fires else "ok",
            f"the test's acceptance probability is off by {error.value:.2g} in a step, and the chains take "
            f"{memory:.0f} steps to forget one: errors add up to about {value:.2g} (limit {LARGEST:g}), which "
            "biases the draws",
            f"{DECIDE_BETTER}; or a proposal that forgets faster",
            value,
            LARGEST,
        )
    ]
