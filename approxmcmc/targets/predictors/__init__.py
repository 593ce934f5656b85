"""Likelihoods in which each row depends on theta through a few linear predictors, for any dimension of theta."""
