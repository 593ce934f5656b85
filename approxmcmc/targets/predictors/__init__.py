"""Likelihoods with rows that depend on theta through a few linear predictors, for any dimension of theta."""
