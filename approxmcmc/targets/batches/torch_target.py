"""A model in PyTorch: a log-likelihood of rows, as a function of a module and of rows."""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.extras import extra
from approxmcmc.engine.terms.python_batches import BatchFunction
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.batches.base import (
    NOT_OVER_ROWS,
    BatchedTarget,
    BatchModel,
    PythonPrior,
    checked_settings,
    normal_scales,
    text_hash,
)
from approxmcmc.targets.checks import real_numbers
from approxmcmc.targets.given import check_names
from approxmcmc.targets.normal_prior import NormalPrior

WHO = "TorchTarget"


def load_torch() -> Any:
    """Return the module `torch`; raise `MissingExtraError` without it."""
    with extra("torch", WHO):
        import torch
    return torch


class TorchModel(BatchModel):
    """The functions of a module, which PyTorch differentiates.

    `loglik` is a function of the module and of rows. `shapes` are those of the module's parameters by name, in the
    order of theta.
    """

    def __init__(self, loglik: Callable[..., Any], module: Any, shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype):
        self._torch = torch = load_torch()
        self.float_dtype = dtype
        self._dtype = getattr(torch, dtype.name)
        self._shapes = shapes
        self._device = next(module.parameters()).device

        class Likelihood(torch.nn.Module):  # type: ignore[misc, name-defined]  # Torch is not typed here
            """The log-likelihood as a module, so that `functional_call` can exchange its parameters."""

            def __init__(self) -> None:
                super().__init__()
                self.module = module

            def forward(self, *rows: Any) -> Any:
                return loglik(self.module, *rows)

        self._likelihood = Likelihood()

    def _terms(self, theta: Any, *rows: Any) -> Any:
        parameters = {}
        start = 0
        for name, shape in self._shapes.items():
            stop = start + int(np.prod(shape))
            parameters[f"module.{name}"] = theta[start:stop].reshape(shape)
            start = stop
        return self._torch.func.functional_call(self._likelihood, parameters, rows)

    def _tensor(self, array: np.ndarray) -> Any:
        tensor = self._torch.from_numpy(np.require(array, requirements="W")).to(self._device)
        return tensor.to(self._dtype) if array.dtype.kind == "f" else tensor

    def write_terms(self, theta: np.ndarray, rows: tuple[np.ndarray, ...], n: int, out: np.ndarray) -> None:
        """Write the terms of the rows."""
        with self._torch.no_grad():
            terms = self._terms(self._tensor(theta), *map(self._tensor, rows))
        out[:] = real_numbers(terms.cpu().numpy(), (n,), f"{WHO}: loglik(module, *rows) of {n} rows", NOT_OVER_ROWS)

    @property
    def add_gradient(self) -> BatchFunction:
        """The gradient by automatic differentiation."""
        return self._add_gradient

    def _add_gradient(self, theta: np.ndarray, rows: tuple[np.ndarray, ...], n: int, out: np.ndarray) -> None:
        at = self._tensor(theta).clone().requires_grad_(True)
        total = self._terms(at, *map(self._tensor, rows)).sum()
        (slope,) = self._torch.autograd.grad(total, at)
        out += slope.cpu().numpy()

    def traced_by(self, rows: Sequence[np.ndarray]) -> str:
        """Return a hash of the operations on a batch, with all tensors that they read except parameters and rows."""
        dim = sum(int(np.prod(shape)) for shape in self._shapes.values())
        return traced_text(self._torch, self._terms, self._tensor(np.zeros(dim)), *map(self._tensor, rows))

    def identity(self) -> str:
        """Return "", because a trace needs rows; see :meth:`TorchTarget._identity`."""
        return ""


class TorchTarget(BatchedTarget):
    """A posterior from a log-likelihood in PyTorch: log p(theta | x) = log p(theta) + sum_i log p(x_i | theta).

    All samplers and tests of the library run on it that need no bounds of terms. PyTorch runs each operation by itself,
    so a batch costs some hundred microseconds: this is for networks, and not for regressions.

    Parameters
    ----------
    loglik
        ``loglik(module, *rows) -> (n,)``: log p(x_i | theta) of n rows; `rows` has n rows of each array in `data`, as
        tensors on the module's device.
    module
        A `torch.nn.Module`; it is copied. Its parameters, in the order of ``named_parameters()``, become the variables
        of the trace under their names, such as ``0.weight``, and their values are where chains start. Buffers are
        constants. Modules that compute with the whole batch, such as batch normalisation in training mode, and dropout
        have no terms: call ``module.eval()`` first.
    data
        An array, or a tuple of arrays or sources (`approxmcmc.sources`), each with N rows. Floats are handed over in
        the type `dtype`, other types as they are.
    prior_scale
        Standard deviations of independent normal priors with mean 0: one number, or a mapping from names of parameters
        to numbers.
    logprior
        ``logprior(module) -> scalar tensor``, in place of the normal prior.
    dtype
        Type in which PyTorch computes, ``"float32"`` or ``"float64"``. Theta, sums of terms and decisions are float64.
    term_tolerance
        Relative rounding error of a term, in checks; None: 1e-5 in float32, 1e-9 in float64.

    Raises
    ------
    InvalidInputError
        When arrays, names or sizes do not fit.
    CompilationError
        When `loglik` returns another shape.
    IncompatibleError
        At set-up, when the term of a row changes with the other rows of its batch.
    MissingExtraError
        Without PyTorch: ``pip install "approxmcmc[torch]"``.

    Notes
    -----
    PyTorch's own threads do not count on a chain's processor clock: call ``torch.set_num_threads(1)`` before several
    chains run, as for any comparison of samplers.

    Examples
    --------
    >>> import numpy as np, torch, approxmcmc as amc  # doctest: +SKIP
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> network = torch.nn.Linear(3, 1)  # doctest: +SKIP
    >>> def loglik(module, X, y):
    ...     eta = module(X)[:, 0]
    ...     return y * eta - torch.nn.functional.softplus(eta)
    >>> amc.targets.TorchTarget(loglik, network, (X, X[:, 0] > 0))  # doctest: +SKIP
    TorchTarget(loglik, n_obs=1000, dim=4)
    """

    _of_process = (*BatchedTarget._of_process, "_prior_model")

    @naming_the_arguments
    def __init__(
        self,
        loglik: Callable[..., Any],
        module: Any,
        data: Any,
        *,
        prior_scale: Any = 1.0,
        logprior: Callable[[Any], Any] | None = None,
        dtype: str = "float32",
        dims: Mapping[str, tuple[str, ...]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        term_tolerance: float | None = None,
    ) -> None:
        torch = load_torch()
        self._dtype, tolerance = checked_settings(loglik, logprior, dtype, term_tolerance)
        if not isinstance(module, torch.nn.Module) or not any(True for _ in module.parameters()):
            raise InvalidInputError(
                f"{WHO}: module must be a torch.nn.Module with parameters, found {type(module).__name__}"
            )
        self._loglik = loglik
        self._logprior = logprior
        self._module = copy.deepcopy(module).to(getattr(torch, self._dtype.name)).requires_grad_(False)
        parameters = {name: leaf.detach().cpu().numpy() for name, leaf in self._module.named_parameters()}
        variables = Variables(
            {name: leaf.shape for name, leaf in parameters.items()}, dict(dims or {}), dict(coords or {})
        )
        check_names(variables)
        start = np.concatenate([np.ravel(leaf) for leaf in parameters.values()]).astype(np.float64)
        if logprior is None:
            prior: Any = NormalPrior(np.zeros(start.size), self._scales(prior_scale, parameters))
        else:
            prior = PythonPrior(self._log_prior, self._add_prior_slope, self._prior_text)
        self._set(data, variables, start, prior, tolerance)
        self._check_terms()

    @names_itself()
    def _scales(self, prior_scale: Any, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        dim = sum(leaf.size for leaf in parameters.values())
        if not isinstance(prior_scale, Mapping):
            return normal_scales(prior_scale, dim)
        if set(prior_scale) != set(parameters):
            raise InvalidInputError(
                f"{WHO}: prior_scale needs a number for each of the parameters {list(parameters)}, found "
                f"{list(prior_scale)}"
            )
        scales = [np.ravel(np.broadcast_to(prior_scale[name], leaf.shape)) for name, leaf in parameters.items()]
        return normal_scales(np.concatenate(scales), dim)

    def _make_model(self) -> TorchModel:
        return TorchModel(self._loglik, self._module, self.variables.shapes, self._dtype)

    def _identity(self) -> str:
        model = self.model
        assert isinstance(model, TorchModel)
        n = min(2, self.n_obs)
        return model.traced_by([array[:n] for array in self.data])

    # --- a prior in PyTorch ---

    @functools.cached_property
    def _prior_model(self) -> TorchModel:
        assert self._logprior is not None
        return TorchModel(self._logprior, self._module, self.variables.shapes, self._dtype)

    def _log_prior(self, theta: np.ndarray) -> float:
        with load_torch().no_grad():
            return float(self._prior_model._terms(self._prior_model._tensor(theta)))

    def _add_prior_slope(self, theta: np.ndarray, out: np.ndarray) -> None:
        self._prior_model._add_gradient(theta, (), 0, out)

    def _prior_text(self) -> str:
        return self._prior_model.traced_by([])

    def __repr__(self) -> str:
        """Show the name of the function and the size."""
        name = getattr(self._loglik, "__name__", type(self._loglik).__name__)
        return f"TorchTarget({name}, n_obs={self.n_obs}, dim={self.variables.size})"


def traced_text(torch: Any, function: Callable[..., Any], *arguments: Any) -> str:
    """Return a hash of the operations of a function, as PyTorch traces them, and of the constants that they read."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(function)(*arguments)
    texts = [torch.__version__, graph.code]
    constants = {**dict(graph.named_parameters()), **dict(graph.named_buffers())}
    constants.update({name: value for name, value in vars(graph).items() if isinstance(value, torch.Tensor)})
    for name in sorted(constants):
        value = constants[name].detach().cpu().numpy()
        texts.append(f"{name} {value.dtype} {value.shape} {value.tobytes().hex()}")
    return text_hash(*texts)
