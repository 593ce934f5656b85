"""Likelihoods whose rows see theta through a few linear predictors, whatever the dimension of theta."""
