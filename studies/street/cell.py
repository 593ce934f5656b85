"""One cell: a model sampled in this process, with its time. ``python -m studies.street.cell MODEL WHO SEED``."""

import json
import math
import resource
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

CHAINS = 4


class Drawn(NamedTuple):
    """A posterior, its sampler, wall-clock seconds of the kept draws, and problems; `measured`: costs of nutpie."""

    posterior: Any
    sampler: str
    drawing: float
    problems: list[str]
    measured: Mapping[str, float] = {}


def ours(model: Any, seed: int) -> Drawn:
    """Sample as a user without settings does: `amc.sample(model)`."""
    import approxmcmc as amc

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", amc.errors.SamplingWarning)
        trace = amc.sample(model, random_seed=seed, progressbar=False)
    problems = [str(warning.message) for warning in caught if issubclass(warning.category, amc.errors.SamplingWarning)]
    attrs = trace["sample_stats"].attrs
    stats = trace["sample_stats"]
    kept = float(stats["perf_counter_diff"].sum())
    tuned = float(sum(attrs.get("tuning_perf_counter_diff", [0.0])))
    return Drawn(trace["posterior"], str(attrs["chosen"]), attrs["sampling_time"] * kept / (kept + tuned), problems)


def nutpie(model: Any, seed: int) -> Drawn:
    """Compile and draw by nutpie, or by PyMC if the model has discrete parameters."""
    return _nuts(model, seed, {})


def long(model: Any, seed: int) -> Drawn:
    """Make a long run of NUTS with short steps."""
    return _nuts(model, seed, {"tune": 1000, "draws": 2500, "target_accept": 0.9})


def _nuts(model: Any, seed: int, settings: dict[str, Any]) -> Drawn:
    if model.discrete_value_vars:
        import pymc as pm

        began = time.perf_counter()
        trace = pm.sample(model=model, random_seed=seed, chains=CHAINS, progressbar=False, **settings)
        return Drawn(trace["posterior"], "PyMC", 0.5 * (time.perf_counter() - began), [])
    import nutpie as library

    before = time.process_time()
    compiled = library.compile_pymc_model(model)
    compilation = time.process_time() - before
    began = time.perf_counter()
    trace = library.sample(compiled, chains=CHAINS, seed=seed, progress_bar=False, **settings)
    took = time.perf_counter() - began
    sampling = time.process_time() - before - compilation
    kept, tuned = (float(trace[group]["n_steps"].sum()) for group in ("sample_stats", "warmup_sample_stats"))
    diverged = int(trace["sample_stats"]["diverging"].sum())
    problems = [f"{diverged} divergences"] if diverged else []
    measured = {"compilation": compilation, "sampling": sampling, "gradients_kept": kept, "gradients_tuned": tuned}
    return Drawn(trace["posterior"], "nutpie", took * kept / (kept + tuned), problems, measured)


WHO: dict[str, Callable[[Any, int], Drawn]] = {"ours": ours, "nutpie": nutpie, "long": long}


def run(name: str, who: str, seed: int) -> dict[str, Any]:
    """Return the results of a cell: seconds, effective draws, and moments of every entry."""
    from studies.street.models import model

    began = time.perf_counter() - time.process_time()  # the start of Python: its CPU time counts as wall-clock time
    pymc_model = model(name)
    drawn = WHO[who](pymc_model, seed)
    wall = time.perf_counter() - began
    cpu = time.process_time()
    free = {variable.name for variable in pymc_model.free_RVs}
    return {
        "model": name,
        "who": who,
        "seed": seed,
        "cpu": cpu,
        "wall": wall,
        "drawing": min(drawn.drawing / wall, 1.0),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "sampler": drawn.sampler,
        "problems": drawn.problems,
        **drawn.measured,
        "dim": sum(math.prod(drawn.posterior[name].shape[2:]) for name in free),
        **_summary(drawn.posterior, free),
    }


def _summary(posterior: Any, free: set[str]) -> dict[str, Any]:
    """Return R-hat and effective draws of the worst parameter, and moments of all entries by name."""
    import arviz as az
    import numpy as np

    names = list[str]()
    moments = list[list[float]]()
    worst = {"ess_bulk": math.inf, "ess_tail": math.inf, "rhat": 1.0}
    for name in sorted(map(str, posterior.data_vars)):
        draws = posterior[name].to_numpy().astype(float)
        draws = draws.reshape(*draws.shape[:2], -1)
        for k in range(draws.shape[2]):
            values = draws[:, :, k]
            if values.std() == 0.0 or not np.isfinite(values).all():  # entries of a Cholesky factor that are 0
                continue
            bulk = float(az.ess(values))
            names.append(f"{name}[{k}]")
            moments.append([float(values.mean()), float(values.std()), bulk])
            if name in free:
                worst["ess_bulk"] = min(worst["ess_bulk"], bulk)
                worst["ess_tail"] = min(worst["ess_tail"], float(az.ess(values, method="tail", prob=(0.05, 0.95))))
                worst["rhat"] = max(worst["rhat"], float(az.rhat(values)))
    mean, sd, ess = (list(column) for column in zip(*moments, strict=True))
    return {**worst, "draws": posterior.sizes["draw"], "names": names, "mean": mean, "sd": sd, "ess": ess}


if __name__ == "__main__":
    model_name, who_samples, number = sys.argv[1:]
    sys.stdout.write(json.dumps(run(model_name, who_samples, int(number))) + "\n")
