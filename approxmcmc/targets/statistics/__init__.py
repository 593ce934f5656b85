"""Likelihoods of normal rows through sufficient statistics."""
