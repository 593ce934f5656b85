"""What an acceptance test reads a sample of."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Population:
    """What a test needs to know of the terms that it samples. A `Target` offers the same, and stands for its own terms.

    Parameters
    ----------
    n_obs
        Number of terms N.
    terms_are_likelihood
        Whether the terms add up to the whole log-likelihood, so that a temperature may divide them.
    same_terms
        Whether every decision is about the same terms, so that their sum at the current state may be kept for the next
        one. The conditionals of a Gibbs sampler have terms of their own.
    """

    n_obs: int
    terms_are_likelihood: bool = True
    same_terms: bool = True
