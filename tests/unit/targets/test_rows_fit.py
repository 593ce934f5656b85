"""Rows of several arguments belong together, and stay as they were when the target was made."""

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets import unchanged

N = 40
rng = np.random.default_rng(3)
LABELS = pd.Index([f"row{i}" for i in range(N)])
X = pd.DataFrame(rng.normal(size=(N, 2)), index=LABELS, columns=["a", "b"])
y = pd.Series((rng.random(N) < 0.5).astype(float), index=LABELS)
GROUPS = pd.Series(np.repeat(range(8), 5), index=LABELS)

MODELS = {
    "logistic": amc.targets.LogisticRegression,
    "logistic of a table": lambda X, y: amc.targets.LogisticRegression(X.assign(c=pd.Categorical(GROUPS % 2)), y),
    "softmax": amc.targets.SoftmaxRegression,
    "softmax of a table": lambda X, y: amc.targets.SoftmaxRegression(X.assign(c=pd.Categorical(GROUPS % 2)), y),
    "robust": amc.targets.RobustRegression,
    "linear": amc.targets.LinearRegression,
    "groups": lambda X, y: amc.targets.GroupedTarget(X, y, GROUPS, family="logit"),
    "normal groups": lambda X, y: amc.targets.NormalGroups(X, y, GROUPS),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
class TestLabels:
    def test_equal_labels_and_arrays_without_labels_fit(self, model):
        by_labels = model(X, y)
        by_position = model(X, y.to_numpy())
        assert by_labels.content_hash() == by_position.content_hash()

    def test_the_same_labels_in_another_order_raise(self, model):
        with pytest.raises(InvalidInputError, match=r"same row labels in another .*write y\.loc\[X\.index\] for y"):
            model(X, y[::-1])
        assert model(X, y[::-1].loc[X.index]).content_hash() == model(X, y).content_hash()

    def test_other_labels_raise(self, model):
        with pytest.raises(InvalidInputError, match=r"different row labels, \['row0', .*join .* with y\.to_numpy"):
            model(X, y.reset_index(drop=True))


def test_labels_of_groups_and_of_several_predictors_are_compared():
    with pytest.raises(InvalidInputError, match="X and groups have the same row labels in another order"):
        amc.targets.GroupedTarget(X, y, GROUPS[::-1], family="logit")


def test_other_lengths_are_for_the_check_of_shapes():
    with pytest.raises(InvalidInputError, match="the same n"):
        amc.targets.LogisticRegression(X, y[:-1])


class TestDataChangedInPlace:
    def arrays(self):
        return np.ascontiguousarray(X), y.to_numpy(copy=True)

    @pytest.mark.parametrize("changed", [0, 1])
    def test_one_changed_number_raises(self, changed):
        given = self.arrays()
        target = amc.targets.LogisticRegression(*given)
        before = target.compile().data[changed].copy()
        given[changed].flat[7] = 1.0 - given[changed].flat[7]
        assert not np.array_equal(target.data[changed], before), "the target shares the array"
        with pytest.raises(InvalidInputError, match=rf"in place .* see data\[{changed}\]; make"):
            target.compile()

    def test_a_run_raises_and_a_new_target_does_not(self):
        given = self.arrays()
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())
        settings = {"draws": 2, "tune": 0, "chains": 1, "random_seed": 1, "progressbar": False, "cores": 1}
        target = amc.targets.LogisticRegression(*given)
        given[0][:] *= 2.0
        with pytest.raises(InvalidInputError, match="changed in place"):
            amc.sample(target, sampler, **settings)
        assert amc.targets.LogisticRegression(*given).compile().n_obs == N

    def test_values_that_are_written_again_unchanged_pass(self):
        given = self.arrays()
        target = amc.targets.LogisticRegression(*given)
        given[0][:] = X.to_numpy()
        target.compile()

    def test_statistics_of_other_rows_raise(self):
        """The statistics would stay those of the old rows, and cross-validation would read the new ones."""
        given = self.arrays()
        target = amc.targets.LinearRegression(*given)
        given[1][:] += 5.0
        with pytest.raises(InvalidInputError, match="LinearRegression: its data were changed in place"):
            target.compile()

    def test_of_a_function(self):
        data = np.arange(5.0)
        target = amc.FunctionTarget(lambda t, d, i: t[0] * d[0][i], lambda t: 0.0, data=data, n_obs=5, dim=1)
        data += 1.0
        with pytest.raises(InvalidInputError, match="FunctionTarget: its data were changed"):
            target.compile()

    def test_an_array_of_objects_is_refused_and_a_new_shape_is_a_change(self):
        references = np.array([[1.0], None], dtype=object)
        records = np.zeros(2, dtype=[("name", object), ("value", float)])
        for array in (references, records):
            with pytest.raises(
                InvalidInputError, match=r"must hold numbers, found an array of dtype .* cannot be seen"
            ):
                unchanged.fingerprint(array)
        zeros = np.zeros((2, 3))
        assert unchanged.fingerprint(zeros) != unchanged.fingerprint(zeros.T)
        assert unchanged.fingerprint(zeros) == unchanged.fingerprint(zeros.copy())

    def test_of_a_large_array_evenly_spread_rows_are_compared(self, monkeypatch):
        monkeypatch.setattr(unchanged, "READ_WHOLE", 1000)
        monkeypatch.setattr(unchanged, "MOST_ROWS", 10)
        rows = rng.normal(size=(1000, 3))
        before = unchanged.fingerprint(rows)
        rows[1] += 1.0  # row 111 is the second of ten
        assert unchanged.fingerprint(rows) == before
        rows[111] += 1.0
        assert unchanged.fingerprint(rows) != before
