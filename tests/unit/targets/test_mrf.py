"""Binary Markov random fields: exact numbers by enumeration, conditionals, the polynomial form, and what is refused."""

import itertools

import numpy as np
import pytest

from approxmcmc.errors import InvalidInputError
from approxmcmc.targets import BinaryMRF

# log Z by independent enumeration over tables indexed state by state; methods.md, section E.
LOG_Z = {(8, 0.3): 7.2230076892, (8, 0.1): 5.6851397471, (6, 0.3): 4.8475781459}
MARGINALS = [0.53897715, 0.15512154, 0.80393155, 0.15095224, 0.77792769, 0.40264542, 0.71517182, 0.80548958]


def mixed() -> BinaryMRF:
    """Return six sites with factors of one, two, three and four sites; sites differ in their numbers of factors."""
    rng = np.random.default_rng(3)
    indices = [np.array([[0], [3]]), np.array([[4, 1], [2, 3]]), np.array([[5, 0, 2]]), np.array([[1, 5, 4, 3]])]
    return BinaryMRF(6, indices, [rng.normal(size=(len(rows), *[2] * rows.shape[1])) for rows in indices])


def brute_force(field: BinaryMRF) -> np.ndarray:
    """Return log densities of all states, one state and one factor at a time."""
    out = np.zeros([2] * field.n_states.size)
    for x in itertools.product((0, 1), repeat=field.n_states.size):
        for group in field.groups:
            for sites, table in zip(group.sites, group.log_tables, strict=True):
                out[x] += table[tuple(x[site] for site in sites)]
    return out


@pytest.mark.parametrize(("n", "scale"), LOG_Z)
def test_log_normalizer(n, scale):
    assert BinaryMRF.random_triples(n, scale, 0).log_normalizer() == pytest.approx(LOG_Z[n, scale], abs=1e-9)


def test_tables_and_marginals_of_the_fixture():
    field = BinaryMRF.random_triples(8, 0.3, 0)
    first = [0.037719, -0.039631, 0.192127, 0.03147, -0.160701, 0.108479, 0.3912, 0.284124]
    np.testing.assert_allclose(field.groups[0].log_tables[0].ravel(), first, atol=5e-7)
    np.testing.assert_allclose(field.marginals(), MARGINALS, atol=5e-9)


@pytest.mark.parametrize("field", [mixed(), BinaryMRF.random_triples(5, 0.5, 1)], ids=["mixed", "triples"])
def test_enumeration_conditionals_and_joints_equal_brute_force(field):
    exact = brute_force(field)
    np.testing.assert_allclose(field.log_joint, exact, atol=1e-12)
    states = np.array(list(itertools.product((0, 1), repeat=field.n_states.size)))
    np.testing.assert_allclose(field.log_density(states), exact.ravel(), atol=1e-12)
    probability = np.exp(exact) / np.exp(exact).sum()
    others = tuple(site for site in range(field.n_states.size) if site not in (3, 1))
    np.testing.assert_allclose(field.joint([3, 1]), probability.sum(axis=others).T, atol=1e-12)
    for site in range(field.n_states.size):
        at_one = probability.take(1, axis=site) / probability.sum(axis=site)
        one = np.broadcast_to(np.expand_dims(at_one, site), exact.shape).ravel()
        np.testing.assert_allclose(field.conditional(states, site)[:, 1], one, atol=1e-12)


def test_terms_of_a_site_add_up_to_its_log_odds():
    field = mixed()
    conditionals = field.compile_conditionals(fields=False)
    assert conditionals.n_terms.tolist() == [2, 2, 2, 3, 2, 2]
    x = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    for site, n in enumerate(conditionals.n_terms):
        data = (conditionals.first[site : site + 1].copy(), *conditionals.tables)
        sums, out = [], np.empty(n)
        for state in (0.0, 1.0):
            y = x.copy()
            y[site] = state
            conditionals.log_terms(y, data, np.arange(n), 0, int(n), out)
            sums.append(out.sum())
        exact = field.conditional(x[None], site)[0]
        assert sums[1] - sums[0] == pytest.approx(np.log(exact[1] / exact[0]), abs=1e-12)


def test_polynomial_form_equals_the_tables():
    rng = np.random.default_rng(4)
    indices = [np.array([[2]]), np.array([[1, 3], [3, 1]]), np.array([[0, 2, 1], [4, 3, 0]])]
    field = BinaryMRF(5, indices, [rng.normal(size=(len(rows), *[2] * rows.shape[1])) for rows in indices])
    linear, pair, triple = field.fields()
    states = np.array(list(itertools.product((0, 1), repeat=5)))
    value = (
        states @ linear
        + 0.5 * np.einsum("ni,ij,nj->n", states, pair, states)
        + np.einsum("ni,nj,nk,ijk->n", states, states, states, triple) / 6.0
    )
    assert np.ptp(field.log_density(states) - value) < 1e-12
    assert np.array_equal(triple, triple.transpose(2, 0, 1)) and not triple[0, 0].any()
    assert mixed().fields() is None  # four sites in a factor


def test_log_density_of_what_is_no_state():
    field = BinaryMRF.random_triples(4, 0.1, 0)
    assert np.isneginf(field.log_density([[0, 1, 2, 0], [0, 0.5, 1, 0], [0, -1, 0, 0]])).all()


def test_content_hash_depends_on_tables():
    assert BinaryMRF.random_triples(4, 0.1, 0).content_hash() == BinaryMRF.random_triples(4, 0.1, 0).content_hash()
    assert BinaryMRF.random_triples(4, 0.1, 0).content_hash() != BinaryMRF.random_triples(4, 0.1, 1).content_hash()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, [[0, 1]], np.zeros((1, 2, 2))), "positive integer"),
        ((2, [[0, 2]], np.zeros((1, 2, 2))), "0 ... 1"),
        ((2, [[0, 0]], np.zeros((1, 2, 2))), "twice"),
        ((3, [[0, 1]], np.zeros((1, 2, 2))), "and site 2 is not"),
        ((2, [[0, 1]], np.zeros((1, 2, 3))), "must have shape"),
        ((2, [[0, 1]], np.full((1, 2, 2), -np.inf)), "infinite"),
        ((2, [[0.5, 1.0]], np.zeros((1, 2, 2))), "integers"),
    ],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(InvalidInputError, match=words):
        BinaryMRF(*arguments)


def test_refusals_of_triples_and_of_enumeration():
    with pytest.raises(InvalidInputError, match="C\\(D, 3\\)"):
        BinaryMRF.from_triples(np.zeros((5, 2, 2, 2)))
    with pytest.raises(InvalidInputError, match="enumeration"):
        BinaryMRF.random_triples(23, 0.1, 0).log_normalizer()
