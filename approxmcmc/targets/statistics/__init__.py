"""Likelihoods of normal rows, computed from sufficient statistics."""
