"""Random PyMC models, drawn by Hypothesis from a grammar of parts, and what NumPy and SciPy say about each.

Each part is one function that draws its settings, writes PyMC code and gives the same quantity in NumPy: `terms` (the
expressions), `laws` (distributions), `priors`, `effects`, `latents`, `predictors`, `families`, `extras`, `containers`.
`models` joins parts to a model, and `strategy` draws a whole one. `oracles` computes densities, integrals and sums by
brute force, `plans` lists the ways in which the library reads a model, and `checks` and `reasons` compare the two.
`planted` has bugs that the checks must reject.

Hypothesis shrinks the choices of the parts, so a failure shows a model of few parts as a script that can be pasted.
"""
