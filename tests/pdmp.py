"""Piecewise deterministic processes, written from the textbook in NumPy, and what their tests share."""

import numpy as np
from scipy.special import expit

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams


def logistic_rows(heavy=True):
    """Return a logistic regression on eight rows, rows 2 to 4 with small entries, row 0 with large ones if `heavy`."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8, 2))
    X[2:5] *= 0.15
    if heavy:
        X[0] *= 6.0
    y = (rng.random(8) < expit(X @ np.array([0.6, -0.4]))).astype(float)
    return amc.targets.LogisticRegression(X, y, prior_scale=2.0)


def with_orders(target, orders):
    """Return the target, whose likelihood knows only the bounds of some orders 0, 1 and 2 of polynomials."""
    known = target.likelihood.derivative_bounds
    target.likelihood.derivative_bounds = lambda order, rows: known(order, rows) if order - 1 in orders else None
    return target


def draws_of(target, sampler, *, steps, seed, start, chain=0):
    """Return the draws of one chain from `start`, shape (steps, dim), its counts by name, and the chain."""
    program = sampler.build(target)
    return advance(program, start, streams(seed_sequences(seed, chain + 1)[0][chain]), steps)


def advance(program, start, own, steps):
    """Advance one chain of a program; return its draws, its counts by name, and the chain."""
    running = program.start(np.array(start, dtype=np.float64), own, 0)
    draws, counts = np.empty((steps, len(start))), np.empty((steps, len(COUNT_NAMES)), np.int64)
    made = running.advance(steps, 1, draws, counts, np.empty((steps, len(VALUE_NAMES))))
    return draws[:made], dict(zip(COUNT_NAMES, counts[:made].T, strict=True)), running


def zigzag(X, y, prior_scale, fit, bound, *, spacing, steps, seed, start):
    """Return draws of the zig-zag process for one row and one coefficient, with control variates of order 1.

    The energy in phi = (theta - mode) / sd is g phi + h phi^2 / 2 - r(phi), h the precision of the prior and r' =
    f'(eta) - f'(eta_c); abs(r') <= bound a^2 abs(phi), a = x sd. Poisson events by thinning, in spans over which the
    proposals' rate is constant.
    """
    own = streams(seed_sequences(seed, 1)[0][0])
    center, sd = fit.mode[0], fit.cholesky[0, 0]
    a, eta_c = X[0, 0] * sd, X[0, 0] * center
    slope_c = y[0] - expit(eta_c)
    g, h = center * sd / prior_scale**2 - slope_c * a, sd**2 / prior_scale**2
    phi, v = (start - center) / sd, 1.0 if own.start.random() < 0.5 else -1.0

    def until_turn():
        """Invert the integral of max(0, v (g + h phi) + h t)."""
        exponential, rate = own.proposal.standard_exponential(), v * (g + h * phi)
        if rate < 0.0:
            return -rate / h + np.sqrt(2.0 * exponential / h)
        return (-rate + np.sqrt(rate**2 + 2.0 * h * exponential)) / h

    draws, rows = [], 0
    for _ in range(steps):
        left, to_turn = spacing, until_turn()
        while left > 0.0:
            span = min(left, to_turn)
            here = bound * a**2 * abs(phi)
            span = 2.0 / here if here * span > 2.0 else span
            most = bound * a**2 * max(abs(phi), abs(phi + v * span))
            time = own.proposal.standard_exponential() / most
            if time < span:
                phi, left, to_turn = phi + v * time, left - time, to_turn - time
                own.order.random(2)  # the only row there is
                rows += 1
                residual = y[0] - expit(eta_c + a * phi) - slope_c
                own.uniform.random()  # the only coordinate there is
                if own.uniform.random() * most < -v * residual * a:
                    v = -v
                    to_turn = until_turn()
            else:
                turns, phi = span == to_turn, phi + v * span
                left, to_turn = (0.0 if span == left else left - span), to_turn - span
                if turns:
                    v = -v
                    to_turn = until_turn()
        draws.append(center + sd * phi)
    return np.array(draws), rows
