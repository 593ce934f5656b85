"""No room but `families` writes down a density of rows: a density is known by the functions that it needs.

A call of one of `FUNCTIONS`, or of a logarithm or an exponential in one of the forms of `forms`, is a *mark*. Files
outside `families` with a mark are in `OTHER`, with the reason why it is no density of rows.
"""

import ast
import re
from pathlib import Path

import approxmcmc
from tests.syntax import tree_of

PACKAGE = Path(approxmcmc.__file__).parent

# Normalising constants, distribution functions, and stable logarithms of probabilities.
FUNCTIONS = {
    *("betaln", "digamma", "erf", "erfc", "erfcx", "gammaln", "lgamma", "log1mexp", "log_ndtr", "log_sigmoid"),
    *("log_softmax", "logaddexp", "loggamma", "logsumexp", "multigammaln", "ndtr", "polygamma", "psi", "softplus"),
    *("trigamma", "xlog1py", "xlogy"),
}
OTHER = {
    "acceptance/barker_decision.py": "the law of a test's own correction",
    "acceptance/laws/barker_law.py": "the law of a test's decisions",
    "acceptance/laws/bridge.py": "the law of a test's decisions",
    "acceptance/laws/correction.py": "the law of a test's own correction",
    "acceptance/laws/probability.py": "counts orders of the rows",
    "design/lower_bounds.py": "the share of draws of a normal law beyond a point",
    "diagnostics/bootstrap.py": "quantiles of a bootstrap",
    "diagnostics/gates.py": "a smoothed sign",
    "engine/numerics.py": "defines functions that families use",
    "interop/graphs.py": "replaces an operation of PyTensor by others",
    "interop/groups/coordinates.py": "the Jacobian of a coordinate",
    "interop/kernels.py": "compiles operations of PyTensor one by one",
    "samplers/counted_model.py": "a normaliser summed over counted states",
    "samplers/firefly/joint.py": "the odds of a bright row, given its gap",
    "targets/boehning.py": "the minorant of a softmax, with its logarithms of sums",
    "targets/discrete/factor_graph.py": "a normaliser summed over all states",
    "targets/mixture.py": "a paper's example: a mixture whose components, not predictors, are the parameters",
    "targets/statistics/kernels.py": "the total of normal rows by their sufficient statistics",
}


def name_of(function):
    """Return the last name of a called function."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def calls(node, *names):
    """Yield the calls of some functions within a node."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and part.args and name_of(part.func) in names:
            yield part


def variables(node):
    """Return the names that a node reads, but of modules."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - {"math", "np", "pt", "pm"}


def forms(tree):
    """Yield parts of a tree that have the form of a density: log(1 + exp), log(2 pi), and a eta - exp(b eta)."""
    for call in calls(tree, "log1p"):
        if any(calls(call.args[0], "exp")):
            yield call
    for call in calls(tree, "log"):
        argument = call.args[0]
        adds = isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add)
        if "pi" in [name_of(part) for part in ast.walk(argument)] or (adds and any(calls(argument, "exp"))):
            yield call
    for part in ast.walk(tree):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub):
            exponents = calls(part.right, "exp", "exp_to_700")
            if any(variables(call.args[0]) & variables(part.left) for call in exponents):
                yield part


# A file without any of these calls has no mark, and need not be walked four times.
CALLED = re.compile(rf"\b(?:{'|'.join(sorted(FUNCTIONS | {'exp', 'exp_to_700', 'log', 'log1p'}))})\s*\(")


def marks(text):
    """Return the lines with a mark."""
    if not CALLED.search(text):
        return []
    tree = tree_of(text)
    found = [*calls(tree, *FUNCTIONS), *forms(tree)]
    return sorted({part.lineno for part in found})


def test_only_families_write_down_densities():
    files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "families"]
    found = {path.relative_to(PACKAGE).as_posix(): marks(path.read_text(encoding="utf-8")) for path in sorted(files)}
    marked = {file: lines for file, lines in found.items() if lines}
    new = {file: lines for file, lines in marked.items() if file not in OTHER}
    assert new == {}, "a density belongs in `families`; give the reason in OTHER for what is no density"
    assert sorted(marked) == sorted(OTHER), "an entry of OTHER whose file has no mark any more"


def test_each_family_has_a_mark():
    """So a copy of it in another room is seen, but of the softmax, whose sums of exponentials are in a loop."""
    room = PACKAGE / "families"
    unmarked = {path.stem for path in room.glob("*.py") if not marks(path.read_text(encoding="utf-8"))}
    assert unmarked == {"__init__", "categorical", "curvature", "family", "polygamma", "stack", "user", "weighted"}


def test_copies_are_seen():
    copies = {
        "logit": "def term(eta, y):\n    return y * eta - np.log1p(np.exp(eta))\n",
        "logit again": "value = y * eta - math.log(1.0 + math.exp(eta))",
        "Poisson": "value = y * eta - np.exp(eta) - extra",
        "normal": "value = -0.5 * ((y - mu) / s) ** 2 - math.log(s) - 0.5 * math.log(2.0 * math.pi)",
        "probit": "value = special.log_ndtr(sign * eta)",
        "gamma": "value = shape * log_rate - math.lgamma(shape)",
    }
    assert {name: marks(text) for name, text in copies.items() if not marks(text)} == {}
    assert marks('"""log1p(exp(x)) in a docstring."""\nx = y * eta - other\n') == []
