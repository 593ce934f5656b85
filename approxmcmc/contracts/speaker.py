"""In whose name a message is written: the public function or the class that a user called.

A check that many functions share, such as the one of an array, begins its message with :func:`speaker`. The name is set
where a user enters the package: by `naming_the_arguments` for public functions and constructors, by `Component` for
settings, and by :func:`names_itself` for methods that run later, such as those that compile a proposal. The innermost
name counts: if `sample` builds a proposal that does not fit the target, the message begins with the proposal's class.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator

_SPEAKER = contextvars.ContextVar("speaker", default="")


def speaker() -> str:
    """Return the name with which a message begins; "" outside all functions that set one."""
    return _SPEAKER.get()


@contextlib.contextmanager
def speaking(name: str) -> Iterator[None]:
    """Write messages in this name in a ``with`` block, or in the function that this decorates."""
    token = _SPEAKER.set(name)
    try:
        yield
    finally:
        _SPEAKER.reset(token)


def names_itself[**P, R](task: str = "{}") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Wrap a method so that its messages begin with the class of its object, put into `task`.

    Examples
    --------
    >>> class Walk:
    ...     @names_itself("build {}")
    ...     def build(self):
    ...         return speaker()
    >>> Walk().build()
    'build Walk'
    """

    def wrap(method: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(method)
        def named(*args: P.args, **kwargs: P.kwargs) -> R:
            with speaking(task.format(type(args[0]).__name__)):
                return method(*args, **kwargs)

        return named

    return wrap
