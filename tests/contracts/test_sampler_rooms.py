"""Every room of samplers has the same files, and every sampler the pieces in them, or a reason why it has not."""

import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from approxmcmc import samplers
from approxmcmc.contracts import Program, Sampler
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.program import StepProgram
from tests.examples import SAMPLERS

HOME = Path(samplers.__file__).parent
ROOMS = sorted(path.name for path in HOME.iterdir() if (path / "__init__.py").is_file())
IN_EVERY_ROOM = ("settings", "step", "program")
# The file of a piece, the method of the sampler that uses it, and the function of the file that is called.
PIECES = {
    "distribution": ("transition_matrix", "transition_matrix"),
    "coupling": ("coupling", "couple"),
    "replication": ("replicate", None),
}
MUST_SAY_WHY = ("transition_matrix", "coupling")


def module(room, name):
    """Return a module of a room; None if the room has no such file."""
    if not (HOME / room / f"{name}.py").is_file():
        return None
    return importlib.import_module(f"approxmcmc.samplers.{room}.{name}")


def samplers_of(room):
    """Return the public samplers of a room."""
    public = importlib.import_module(f"approxmcmc.samplers.{room}")
    return [value for value in vars(public).values() if inspect.isclass(value) and issubclass(value, Sampler)]


def has(sampler, method):
    """Return whether a sampler defines a method that the role refuses."""
    return getattr(sampler, method) is not getattr(Sampler, method)


EACH = [sampler for room in ROOMS for sampler in samplers_of(room)]


def test_all_samplers_are_in_a_room():
    public = {value for name in samplers.__all__ if inspect.isclass(value := getattr(samplers, name))}
    assert {value for value in public if issubclass(value, Sampler)} == set(EACH)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_settings_a_step_and_a_program(room):
    settings, step, _ = (module(room, name) for name in IN_EVERY_ROOM)
    for sampler in samplers_of(room):
        assert sampler.__module__ == settings.__name__
        assert dataclasses.is_dataclass(sampler) and sampler.__dataclass_params__.frozen
        assert "build" in vars(sampler) and "why_not_invariant" in dir(sampler)
    assert "make_step" in vars(step)


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("piece", PIECES)
def test_a_room_has_the_file_of_a_piece_that_one_of_its_samplers_has(room, piece):
    method, function = PIECES[piece]
    file = module(room, piece)
    assert (file is not None) == any(has(sampler, method) for sampler in samplers_of(room))
    assert file is None or function is None or function in vars(file)


def test_every_program_is_a_step_program():
    names = [found.name for found in pkgutil.walk_packages([str(HOME)], "approxmcmc.samplers.")]
    values = [value for name in names for value in vars(importlib.import_module(name)).values()]
    programs = {value for value in values if inspect.isclass(value) and issubclass(value, Program)}
    assert {program for program in programs if not issubclass(program, StepProgram)} == {Program}


@pytest.mark.parametrize("sampler", EACH, ids=lambda sampler: sampler.__name__)
@pytest.mark.parametrize("method", MUST_SAY_WHY)
def test_a_sampler_has_a_piece_or_says_why_not(sampler, method):
    if has(sampler, method):
        return
    why = sampler.scope[method]
    [example, *_] = SAMPLERS[sampler.__name__]
    with pytest.raises(IncompatibleError) as refusal:
        getattr(example, method)(*(["target"] if method == "coupling" else ["target", None]))
    message = str(refusal.value)
    assert why and why in message
    assert all(other.__name__ in message for other in EACH if has(other, method))
