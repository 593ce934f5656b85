"""The counted work of a target's terms, and of a gradient of the model that its user wrote."""

from typing import Literal, NamedTuple


class TermWork(NamedTuple):
    """The work of one term, counted and never timed, so that choices based on it are repeatable.

    `operations` counts scalar operations of a term, `gradient` those of its gradient, None if the target has none;
    `bytes` counts the data read for it. `code` is the origin of the code: ``"library"``, compiled once per machine;
    ``"groups"``, a quadrature, compiled for each form of groups; ``"python"``, a user's function; ``"predictor"``, a
    graph of one or two linear predictors; ``"graph"``, any other graph of operations; or ``"matrices"``, a graph with
    factors of matrices, which compile slowly. The last four are compiled for each new model.
    """

    operations: float
    gradient: float | None
    bytes: float
    code: Literal["library", "groups", "python", "predictor", "graph", "matrices"] = "library"


class WrittenWork(NamedTuple):
    """The work of whole chains on a model as its user wrote it, counted and never timed.

    `operations` counts those of all terms in the code of the model's graph, `dim` the parameters; `multiplies` says
    whether the code multiplies matrices, which takes long to compile. `longer` is the length of trajectories, as a
    multiple of those for independent normal coordinates.
    """

    operations: float
    dim: int
    multiplies: bool = False
    longer: float = 1.0
