"""Families: the distributions of a row's response given its linear predictor, one file each."""

from approxmcmc.families.bernoulli import LOGIT, PROBIT
from approxmcmc.families.binomial import BINOMIAL
from approxmcmc.families.family import Family
from approxmcmc.families.negative_binomial import NEGATIVE_BINOMIAL
from approxmcmc.families.normal import NORMAL
from approxmcmc.families.poisson import POISSON
from approxmcmc.families.stack import Stack

__all__ = [
    "BINOMIAL",
    "FAMILIES",
    "LOGIT",
    "NEGATIVE_BINOMIAL",
    "NORMAL",
    "POISSON",
    "PROBIT",
    "Family",
    "Stack",
    "stack_of",
]

FAMILIES = {one.name: one for one in (LOGIT, PROBIT, BINOMIAL, POISSON, NEGATIVE_BINOMIAL, NORMAL)}


def stack_of(name: str) -> Stack:
    """Return the stack of a family by name, or of two: "poisson and normal"."""
    return Stack(*(FAMILIES[one] for one in name.split(" and ")))
