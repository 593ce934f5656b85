"""The cost of a posterior compared with a fit: 400 effective exact draws and scikit-learn's logistic regression.

``python -m studies.race.fits [--out FOLDER] [--set NAME] [--repeats K]`` writes fits.csv: CPU seconds of one process
and one thread for scikit-learn's ``newton-cholesky`` (penalty C = 1, tolerance 1e-6) and for ``amc.sample(target,
target_ess=400)`` with all other defaults, in turn, after one pair that compiles. The prior N(0, 1) is the
fit's penalty. A fit gives a mode; the draws give bulk and tail ESS of at least 400 for the worst parameter, which the
column `ess` measures again.
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np

import approxmcmc as amc
from approxmcmc import datasets
from approxmcmc.engine.files.whole_files import whole_file
from studies.race.table import two_digits

WANTED = 400  # effective draws
LEVELS = 20  # levels of a factor of the one-hot table
FACTORS = 7  # factors of the one-hot table


def dense() -> tuple[np.ndarray, np.ndarray]:
    """Return 100 000 rows of 50 normal predictors, and 0/1 responses."""
    return _responses(np.random.default_rng(1).normal(size=(100_000, 50)), 0.3)


def one_hot() -> tuple[np.ndarray, np.ndarray]:
    """Return 300 000 rows of seven factors with 20 levels each, one column for each level, and 0/1 responses."""
    codes = np.random.default_rng(1).integers(0, LEVELS, (FACTORS, 300_000))
    return _responses(np.concatenate([np.eye(LEVELS)[mine] for mine in codes], axis=1), 0.5)


def _responses(X: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    return X, (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-X @ rng.normal(scale=scale, size=X.shape[1])))).astype(float)


def _public(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def load() -> tuple[np.ndarray, np.ndarray]:
        data = getattr(datasets, name)()
        return data.X_train, data.y_train

    return load


SETS: Mapping[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "dense": dense,
    "ijcnn1": _public("ijcnn1"),
    "a9a": _public("a9a"),
    "covertype": _public("covertype"),
    "one-hot": one_hot,
}


def compare(name: str, repeats: int) -> dict[str, Any]:
    """Return the median CPU seconds of fit and posterior, and the smallest ESS of all runs."""
    from sklearn.linear_model import LogisticRegression

    X, y = SETS[name]()
    fits = []
    answers = []
    sizes = []
    chosen = ""
    for seed in range(repeats + 1):
        began = time.process_time()
        LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-6, fit_intercept=False).fit(X, y)
        fitted = time.process_time()
        target = amc.targets.LogisticRegression(X, y)
        trace = amc.sample(target, target_ess=WANTED, random_seed=seed, progressbar=False)
        fits.append(fitted - began)
        answers.append(time.process_time() - fitted)
        tails = {"method": "tail", "prob": (0.05, 0.95)}
        sizes += [float(az.ess(trace, **how)["beta"].min()) for how in ({"method": "bulk"}, tails)]
        chosen = trace["posterior"].attrs["chosen"].partition(" (exact)")[0]
    fit = statistics.median(fits[1:])
    answer = statistics.median(answers[1:])
    row = {"data": name, "rows": len(X), "columns": X.shape[1], "fit": fit, "posterior": answer}
    return row | {"ratio": answer / fit, "first": answers[0], "ess": min(sizes), "sampler": chosen}


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the comparisons as a Markdown table."""
    lines = ["| data | rows x columns | fit, CPU s | posterior, CPU s | posterior / fit | least ESS | sampler |"]
    lines.append("|---|---|--:|--:|--:|--:|---|")
    for row in rows:
        figures = " | ".join(two_digits(float(row[name])) for name in ("fit", "posterior", "ratio"))
        size = f"{int(row['rows']):,} x {row['columns']}"
        lines.append(f"| {row['data']} | {size} | {figures} | {float(row['ess']):.0f} | {row['sampler']} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Compare fit and posterior, and rewrite the table after each data set; other data sets keep their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/race"))
    parser.add_argument("--set", action="append", choices=SETS, default=[])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    path = arguments.out / "fits.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {row["data"]: row for row in csv.DictReader(path.open(newline=""))} if path.exists() else {}
    for name in arguments.set or SETS:
        rows[name] = compare(name, arguments.repeats)
        with whole_file(path) as whole, whole.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[name]))
            writer.writeheader()
            writer.writerows(rows.values())


if __name__ == "__main__":
    main()
