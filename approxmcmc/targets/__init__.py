"""Posterior distributions. One model per file; a user's own model is `Target` or `GLMTarget`."""

from approxmcmc.targets.linear import GLMTarget, LogisticRegression
from approxmcmc.targets.user import Target

__all__ = ["GLMTarget", "LogisticRegression", "Target"]
