"""Check which of the latent variables that are integrated or summed out a user wants to store."""

from typing import Any

from approxmcmc.engine.extras import extra
from approxmcmc.errors import InvalidInputError


def checked_latents(latents: Any) -> Any:
    """Return `latents`; raise if it is the path of a folder that no run can fill. `sample` checks an existing folder.

    Raises
    ------
    InvalidInputError
        When the name does not end with ``.zarr``.
    MissingExtraError
        When zarr is not installed.
    """
    if not isinstance(latents, str) or latents == "auto":
        return latents
    with extra("sources", f"latents={latents!r}"):
        import zarr  # noqa: F401
    if not latents.endswith(".zarr"):
        raise InvalidInputError(
            f"from_pymc: latents must be 'auto', labels of groups or a .zarr path, found {latents!r}"
        )
    return latents
