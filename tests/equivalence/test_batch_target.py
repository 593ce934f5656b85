"""A model as Python functions of a batch makes the draws of the same model in the library: bit by bit where it can.

Terms of the two differ in their last bits. A walk's draws depend on terms through decisions only, so they are equal;
draws of gradient proposals differ by rounding. Counts are equal in all cases.
"""

import functools
import pickle

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import AlwaysAccept, ExactTest, MinibatchBarker, SequentialTTest
from approxmcmc.engine.terms.python_batches import RowReader, gradient_by_python, terms_by_python
from approxmcmc.errors import (
    CompilationError,
    IncompatibleError,
    InvalidInputError,
    SamplingError,
    SamplingWarning,
)
from approxmcmc.proposals import Hamiltonian, Langevin, RandomWalk, StochasticGradientLangevin
from approxmcmc.targets import BatchTarget, LogisticRegression

N, DIM = 240, 3
MH = amc.MetropolisHastings
RULE = {"draws": 25, "tune": 5, "chains": 2, "random_seed": 3, "progressbar": False, "audit_every": None}
COUNTS = ("datapoints_touched", "likelihood_evaluations", "gradient_evaluations")
NO_ORDER = np.empty(0, np.int64)

WALKS = {
    "exact": MH(RandomWalk(0.2), ExactTest()),
    "t-test, rows": MH(RandomWalk(0.2), SequentialTTest(0.05, batch_size=60, order="rows")),
    "t-test, blocks": MH(RandomWalk(0.2), SequentialTTest(0.05, batch_size=60, order="blocks")),
    "Barker": MH(RandomWalk(0.05), MinibatchBarker(batch_size=60)),
}
GRADIENTS = {
    "Langevin": MH(Langevin(0.1), ExactTest()),
    "Hamiltonian": MH(Hamiltonian(0.05), ExactTest()),
    "SGLD": MH(StochasticGradientLangevin(1e-3, batch_size=60), AlwaysAccept()),
    "SGLD, t-test": MH(StochasticGradientLangevin(1e-3, batch_size=60), SequentialTTest(0.05, batch_size=60)),
}


@functools.cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, DIM))
    return X, (rng.random(N) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(float)


def terms(theta, rows):
    X, y = rows
    eta = X @ theta
    return y * eta - np.logaddexp(0.0, eta)


def gradient(theta, rows):
    X, y = rows
    return X.T @ (y - 1.0 / (1.0 + np.exp(-X @ theta)))


@functools.cache
def in_numpy():
    return BatchTarget(terms, data(), dim=DIM, gradient=gradient, prior_scale=2.0, var_names=["beta"])


@functools.cache
def in_library():
    return LogisticRegression(*data(), prior_scale=2.0)


def both(sampler):
    traces = [amc.sample(target, sampler, **RULE, initvals=np.full(DIM, 0.1)) for target in (in_library(), in_numpy())]
    for name in COUNTS:
        counts = [trace["sample_stats"][name].values for trace in traces if name in trace["sample_stats"]]
        assert len(counts) != 1 and all(np.array_equal(counts[0], other) for other in counts)
    return [trace["posterior"]["beta"].values for trace in traces]


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_draws_the_same_bits(name):
    ours, theirs = both(WALKS[name])
    assert len(np.unique(ours[0], axis=0)) > 3
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_proposal_draws_the_same_up_to_rounding(name):
    ours, theirs = both(GRADIENTS[name])
    assert len(np.unique(ours[0], axis=0)) > 3
    assert np.abs(ours - theirs).max() < 1e-12


@pytest.mark.parametrize("rows", [slice(3, 50), np.array([7, 7, 0, 239]), slice(0, 240)])
@pytest.mark.parametrize("sizes", [(), (8, 32), (512,)])
def test_every_row_of_a_batch_is_read_once(sizes, rows):
    """Buffers of any sizes give the rows of the batch, in their order; longer batches are cut."""
    X, y = data()
    reader = RowReader((X, y), sizes)
    order = np.arange(N)[rows]
    found = [
        (first, n, X_piece[:n].copy(), len(X_piece))
        for first, n, (X_piece, _) in reader.pieces((X, y), rows, len(order))
    ]
    assert np.array_equal(np.concatenate([piece for _, _, piece, _ in found]), X[order])
    assert [first for first, *_ in found] == list(np.cumsum([0, *(n for _, n, *_ in found)])[:-1])
    assert not sizes or all(size in sizes for *_, size in found)


def test_padding_repeats_a_row_of_the_batch():
    X, y = data()
    [(_, n, (buffer, _))] = RowReader((X, y), (8,)).pieces((X, y), np.array([5, 6]), 2)
    assert n == 2 and np.array_equal(buffer[2:], np.tile(X[5], (6, 1)))


@pytest.mark.parametrize("sizes", [(), (64,)])
def test_kernels_read_the_data_of_the_call(sizes):
    """A test passes a copy of the data, and shuffles it in place between two calls."""
    X, y = (array.copy() for array in data())

    def write(theta, rows, n, out):
        out[:] = terms(theta, rows)[:n]

    def add(theta, rows, n, out):
        out += gradient(theta, tuple(array[:n] for array in rows))

    reader = RowReader((X, y), sizes)
    log_terms, add_gradient = terms_by_python(write, reader, (X, y)), gradient_by_python(add, reader, (X, y))
    theta = np.full(DIM, 0.3)
    for _ in range(2):
        out, slope = np.empty(100), np.ones(DIM)
        log_terms(theta, (X, y), NO_ORDER, 20, 120, out)
        add_gradient(theta, (X, y), NO_ORDER, 20, 120, slope)
        assert np.allclose(out, terms(theta, (X, y))[20:120], rtol=1e-13)
        assert np.allclose(slope - 1.0, gradient(theta, (X[20:120], y[20:120])), rtol=1e-12)
        X[:] = X[::-1].copy()


@pytest.mark.parametrize(("calls_before", "kept"), [(60, False), (300, True)])
def test_an_exception_of_the_function_ends_the_run_and_is_told(calls_before, kept):
    """Without a kept draw it is raised, as the cause; later the trace has the draws before it."""
    n_calls = 0

    def failing(theta, rows):
        nonlocal n_calls
        n_calls += 1
        if n_calls > calls_before:
            raise ZeroDivisionError("planted in the model")
        return terms(theta, rows)

    target = BatchTarget(failing, data(), dim=DIM, identity="failing")
    rule = RULE | {"draws": 2000, "chains": 1, "tune": 0 if kept else 200}
    if kept:
        with pytest.warns(SamplingWarning, match="planted in the model"):
            trace = amc.sample(target, WALKS["exact"], **rule)
        assert 0 < trace["posterior"].sizes["draw"] < 2000
        assert "ZeroDivisionError" in trace["posterior"].attrs["failure"]
    else:
        with pytest.raises(SamplingError, match="planted in the model") as caught:
            amc.sample(target, WALKS["exact"], **rule)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_term_that_depends_on_its_batch_is_refused():
    def normalised(theta, rows):
        X, y = rows
        return terms(theta, (X - X.mean(axis=0), y))

    with pytest.raises(IncompatibleError, match=r"own row alone.*batch normalisation"):
        BatchTarget(normalised, data(), dim=DIM)


def test_a_wrong_gradient_is_refused():
    with pytest.raises(InvalidInputError, match=r"gradient disagrees .* most in theta"):
        BatchTarget(terms, data(), dim=DIM, gradient=lambda theta, rows: 1.01 * gradient(theta, rows))


@pytest.mark.parametrize(
    ("function", "message"),
    [(lambda theta, rows: 0.0, r"shape \(\d+,\) .* found \(\)"), (lambda theta, rows: rows[0], r"found \(\d+, 3\)")],
)
def test_terms_of_another_shape_are_refused(function, message):
    with pytest.raises(CompilationError, match=message):
        BatchTarget(function, data(), dim=DIM)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim"),
        ({"prior_scale": 0.0}, "prior_scale"),
        ({"prior_scale": [1.0, 2.0]}, "prior_scale"),
        ({"prior_scale": "wide"}, "prior_scale"),
        ({"gradient": 3}, "gradient must be a function"),
        ({"term_tolerance": True}, "term_tolerance"),
        ({"term_tolerance": 0.5}, "term_tolerance"),
        ({"initial_point": np.zeros(2)}, "initial_point"),
        ({"identity": 3}, "identity"),
        ({"data": (data()[0], data()[1][:-1])}, "one row for each term"),
        ({"data": (data()[0], 3.0)}, "one row for each term"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    arguments = {"terms": terms, "data": data(), "dim": DIM} | settings
    with pytest.raises(InvalidInputError, match=message):
        BatchTarget(**arguments)


def test_without_a_gradient_the_message_says_how_to_give_one():
    target = BatchTarget(terms, data(), dim=DIM)
    with pytest.raises(IncompatibleError, match="gradient=, a function"):
        amc.sample(target, GRADIENTS["Langevin"], **RULE)


def test_its_hash_follows_what_the_function_reads():
    def scaled(scale):
        return lambda theta, rows: scale * terms(theta, rows)

    hashes = {BatchTarget(scaled(scale), data(), dim=DIM).content_hash() for scale in (1.0, 1.0, 2.0)}
    assert len(hashes) == 2
    assert BatchTarget(terms, data(), dim=DIM).content_hash() != in_numpy().content_hash()  # another prior


def test_a_pickled_target_is_the_same():
    again = pickle.loads(pickle.dumps(in_numpy()))
    assert again.content_hash() == in_numpy().content_hash()
    trace = amc.sample(again, WALKS["exact"], **RULE, initvals=np.full(DIM, 0.1))
    assert np.array_equal(trace["posterior"]["beta"].values, both(WALKS["exact"])[1])


def test_a_run_resumes_with_the_same_draws(tmp_path):
    whole = amc.sample(in_numpy(), WALKS["t-test, blocks"], **RULE)
    amc.sample(in_numpy(), WALKS["t-test, blocks"], **(RULE | {"draws": 10}), checkpoint=tmp_path / "run.nc")
    rest = amc.resume(tmp_path / "run.nc", in_numpy(), draws=15, progressbar=False)
    assert np.array_equal(rest["posterior"]["beta"].values, whole["posterior"]["beta"].values)


def test_many_parameters_need_a_named_sampler():
    X = np.ones((400, 201))
    target = BatchTarget(lambda theta, rows: -0.5 * (rows[0] @ theta) ** 2, X, dim=201)
    with pytest.raises(IncompatibleError, match=r"201 parameters.*Name a sampler"):
        amc.sample(target, progressbar=False)


def test_a_float32_array_and_integers_keep_their_types():
    X, y = data()
    target = BatchTarget(terms, (X.astype(np.float32), y.astype(np.uint8)), dim=DIM, term_tolerance=1e-5)
    assert [array.dtype for array in target.data] == [np.float32, np.uint8]
    assert target.compile().term_tolerance == 1e-5
