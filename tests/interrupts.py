"""An interrupt that comes once every chain has kept a draw: by the clock it could come during tuning."""

import _thread
import signal

import pytest

from approxmcmc.sampling.recorder import Recorder


def skip_where_interrupts_are_ignored():
    """Skip the test in a job that a shell has put into the background: such a job ignores SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("interrupts are ignored here")


def interrupt_once_drawing(monkeypatch, *, chains):
    """Interrupt the next run when each of its chains has draws."""
    skip_where_interrupts_are_ignored()
    advance = Recorder.advance
    drawing = set()

    def advance_and_interrupt(recorder):
        advance(recorder)
        if recorder.done[1] and recorder not in drawing:
            drawing.add(recorder)
            if len(drawing) == chains:
                _thread.interrupt_main()

    monkeypatch.setattr(Recorder, "advance", advance_and_interrupt)
