"""Families: the distributions of a row's response given its linear predictor, one file each."""

from approxmcmc.families.bernoulli import LOGIT, PROBIT
from approxmcmc.families.binomial import BINOMIAL
from approxmcmc.families.family import Family
from approxmcmc.families.joint import joint_of
from approxmcmc.families.negative_binomial import NEGATIVE_BINOMIAL
from approxmcmc.families.normal import NORMAL
from approxmcmc.families.poisson import POISSON

__all__ = ["BINOMIAL", "FAMILIES", "LOGIT", "NEGATIVE_BINOMIAL", "NORMAL", "POISSON", "PROBIT", "Family", "family_of"]

FAMILIES = {one.name: one for one in (LOGIT, PROBIT, BINOMIAL, POISSON, NEGATIVE_BINOMIAL, NORMAL)}


def family_of(name: str) -> Family:
    """Return a family by name, or two, "poisson and normal", as one."""
    first, _, second = name.partition(" and ")
    return joint_of(FAMILIES[first], FAMILIES[second]) if second else FAMILIES[first]
