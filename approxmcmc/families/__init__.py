"""Families: the distributions of a row's response given its linear predictor, one file each."""

from approxmcmc.families import (
    bernoulli,
    beta,
    binomial,
    categorical,
    gamma,
    negative_binomial,
    normal,
    ordered,
    poisson,
    student_t,
    weibull,
)
from approxmcmc.families.bernoulli import CLOGLOG, LOGIT, PROBIT
from approxmcmc.families.binomial import BINOMIAL
from approxmcmc.families.family import Family, Form
from approxmcmc.families.gamma import GAMMA
from approxmcmc.families.negative_binomial import NEGATIVE_BINOMIAL
from approxmcmc.families.normal import NORMAL
from approxmcmc.families.poisson import POISSON
from approxmcmc.families.stack import Stack
from approxmcmc.families.weibull import WEIBULL

__all__ = [
    "BINOMIAL",
    "CLOGLOG",
    "FAMILIES",
    "FORMS",
    "GAMMA",
    "LOGIT",
    "NEGATIVE_BINOMIAL",
    "NORMAL",
    "POISSON",
    "PROBIT",
    "WEIBULL",
    "Family",
    "Form",
    "Stack",
]

# Families of rows in groups: their terms are concave in the predictor, so a group has one mode.
FAMILIES = {
    one.name: one for one in (LOGIT, PROBIT, CLOGLOG, BINOMIAL, POISSON, NEGATIVE_BINOMIAL, GAMMA, WEIBULL, NORMAL)
}

# How PyMC models write all families; of several forms of one distribution the first that fits is taken.
_FILES = bernoulli, beta, binomial, categorical, gamma, negative_binomial, normal, ordered, poisson, student_t, weibull
FORMS: tuple[Form, ...] = tuple(form for file in _FILES for form in file.FORMS)
