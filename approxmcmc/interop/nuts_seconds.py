"""Seconds of NUTS on a model as it is written, by its counted work (`read.work_as_written`).

A leapfrog step is a gradient on all data, and trajectories in d dimensions take some 4 d^(1/4) of them (Beskos and
others 2013). Between standardised effects z and an intercept the posterior is a ridge: the variance of the intercept is
F times its variance given z, F the `hierarchies.variance_ratio`, so trajectories must be F^(1/2) times as long.
(nutpie's are shorter: in a model of 400 and 100 crossed effects, 61 of its draws were worth one independent draw of the
intercept.)

Nothing here needs PyMC, so that runs without a PyMC model do not import it.
"""

from approxmcmc.contracts import WrittenWork

LEAPFROGS = 4.0  # times d^(1/4), in trajectories of a nearly normal law
# Seconds in which nutpie compiles a model: 5 to 8 without products of matrices, 12 to 13 with, and 42 with a Cholesky
# factor.
COMPILE = 7.0
COMPILE_PRODUCTS = 12.5
COMPILE_FACTORS = 42.0
# Seconds for one operation of a row in PyTensor's graph, with its derivative. Nanoseconds of a row, first as measured,
# then by this count: 2 to 4 and 5 for a normal row, 8 to 11 and 6 to 9 for a Poisson row, 50 to 56 and 52 for a
# logistic one, 75 and 83 for an ordered one, 40 and 77 for a softmax of three classes.
OPERATION = 0.25e-9
LEAST = 7e-6  # seconds of a gradient besides those of its operations


def seconds_of_trajectory(work: WrittenWork) -> float:
    """Return the seconds of a trajectory of NUTS, which makes one draw."""
    return float(LEAPFROGS * work.dim**0.25 * work.longer * (LEAST + work.operations * OPERATION))


def seconds_to_compile(work: WrittenWork) -> float:
    """Return the seconds in which nutpie compiles a model without factors of matrices."""
    return COMPILE_PRODUCTS if work.multiplies else COMPILE
