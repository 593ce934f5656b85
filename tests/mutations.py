"""What a user's function can read, each in two versions, and the depths at which it can read it.

A case is a piece of source in two versions, and an expression that reads it. ``function(case, depth, version)`` makes a
module with a function of `x` that returns `x` times the expression, read at that depth.

A case begins with ``##`` and its name. ``(compiled)``: numba compiles it, at every depth; ``(equal values)``: plain
Python gives the same value in both versions; ``(only of numba)``: plain Python has no such thing. ``«one|other»``
differs between the versions, and ``=>`` stands before the expression.
"""

import re
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

IMPORTS = """
import collections, dataclasses, enum, functools, sys, types
from typing import NamedTuple
import numpy as np
from numba import cfunc, guvectorize, njit, vectorize
from numba import types as nb
from numba.experimental import jitclass
from numba.extending import overload, overload_method
"""

_CASES = """
## global (compiled)
K = «1.5|2.5»
=> K

## the sign of zero (compiled)
K = «0.0|-0.0»
=> np.copysign(1.0, K)

## a number's type (equal values)
K = «1|1.0»
=> K

## text (compiled)
K = «'a'|'b'»
=> (1.0 if K == 'a' else 2.0)

## array (compiled)
K = np.array([1.0, «1.5|2.5»])
=> K[1]

## an array's type (compiled)
K = np.array([0.1], dtype=«np.float32|np.float64»)
=> K[0]

## an array's shape (compiled)
K = np.arange(6.0).reshape(«(2, 3)|(3, 2)»)
=> K[1, 0]

## the order of fields (compiled)
K = np.array([(1.0, 2.0)], dtype=[(«'a'|'b'», float), («'b'|'a'», float)])
=> K[0]['a']

## scalar of NumPy (compiled)
K = «np.float32|np.float64»(0.1)
=> K

## tuple (compiled)
K = (1.0, «1.5|2.5»)
=> K[1]

## the nesting of a tuple (equal values)
K = «((1.0, 2.0), 3.0)|(1.0, (2.0, 3.0))»
=> len(K[0:1][0:1])

## the length of inner tuples (compiled)
K = «((1, 2), (3,))|((1,), (2, 3))»
=> (1.5 * len(K[0]))

## list
K = [1.0, «1.5|2.5»]
=> K[1]

## dictionary
K = {'a': «1.5|2.5»}
=> K['a']

## set
K = {1.0, «1.5|2.5»}
=> max(K)

## closure (compiled)
def make(k):
    @njit
    def read():
        return k
    return read
read = make(«1.5|2.5»)
=> read()

## closure inside a closure
def make(k):
    def middle():
        def read():
            return k
        return read()
    return middle
read = make(«1.5|2.5»)
=> read()

## default (compiled)
@njit
def read(k=«1.5|2.5»):
    return k
=> read()

## default of an inner function
K = «1.5|2.5»
def read():
    def inner(k=K):
        return k
    return inner()
=> read()

## keyword-only default
def read(*, k=«1.5|2.5»):
    return k
=> read()

## attribute of a function
def read():
    return read.k
read.k = «1.5|2.5»
=> read()

## text that is also the docstring
def read():
    'a'
    return 1.0 if NAME == «'a'|'b'» else 2.0
NAME = 'a'
=> read()

## the range of a try
def fail():
    raise ValueError
def read():
    try:
        «x = 1|fail()»
    except ValueError:
        return 2.0
    return 1.0
=> read()

## attribute of a module (compiled)
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = «1.5|2.5»
package.up = package
=> package.K

## attribute of an inner module (compiled)
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = «1.5|2.5»
package.up = package
=> package.inner.K

## modules in a circle (compiled)
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = «1.5|2.5»
package.up = package
=> package.up.up.inner.K

## module under another name (compiled)
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = «1.5|2.5»
package.up = package

@njit
def read():
    m = package
    return m.K
=> read()

## module passed on
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = «1.5|2.5»
package.up = package

def inner(m):
    return m.K
def read():
    return inner(package)
=> read()

## module in a closure (compiled)
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = «1.5|2.5»
package.up = package

def make(m):
    @njit
    def read():
        return m.inner.K
    return read
read = make(package)
=> read()

## module in a tuple
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = «1.5|2.5»
package.up = package

modules = (package,)
def read():
    return modules[0].K
=> read()

## what a library was given (compiled)
np.given_by_the_user = «1.5|2.5»
=> np.given_by_the_user

## function that a library was given
def given():
    return «1.5|2.5»
np.given_by_the_user = given
=> np.given_by_the_user()

## function with the name of another
@functools.wraps(np.exp)
def read():
    return «1.5|2.5»
=> read()

## import
sys.modules['imported_by_the_user'] = package = types.ModuleType('imported_by_the_user')
package.K = «1.5|2.5»
def read():
    from imported_by_the_user import K
    return K
=> read()

## import of a module
sys.modules['imported_by_the_user'] = package = types.ModuleType('imported_by_the_user')
package.K = «1.5|2.5»
def read():
    import imported_by_the_user as m
    return m.K
=> read()

## attribute of a class
class Settings:
    K = «1.5|2.5»
=> Settings.K

## attribute of a base class
class Base:
    K = «1.5|2.5»
class Settings(Base):
    pass
=> Settings.K

## method
class Settings:
    def read(self):
        return «1.5|2.5»
=> Settings().read()

## global of a method
K = «1.5|2.5»
class Settings:
    @staticmethod
    def read():
        return K
=> Settings.read()

## property
class Settings:
    @property
    def k(self):
        return «1.5|2.5»
=> Settings().k

## method of a class
class Settings:
    K = «1.5|2.5»
    @classmethod
    def read(cls):
        return cls.K
=> Settings.read()

## default of a dataclass
@dataclasses.dataclass
class Settings:
    k: float = «1.5|2.5»
=> Settings().k

## metaclass
class Meta(type):
    k = «1.5|2.5»
class Settings(metaclass=Meta):
    pass
=> Settings.k

## order of the fields of a named tuple (compiled)
class Pair(NamedTuple):
    «a|b»: float
    «b|a»: float
=> Pair(1.5, 2.5).a

## order of the fields of a namedtuple (compiled)
Pair = collections.namedtuple('PairOfTheOtherKind', «'a b'|'b a'»)
=> Pair(1.5, 2.5).a

## default of a named tuple
class Pair(NamedTuple):
    a: float = «1.5|2.5»
=> Pair().a

## method of a named tuple
class Pair(NamedTuple):
    a: float
    def twice(self):
        return «1.5|2.5» * self.a
=> Pair(1.0).twice()

## value of a named tuple (compiled)
class Pair(NamedTuple):
    a: float
K = Pair(«1.5|2.5»)
=> K.a

## member of an enumeration (compiled)
class Place(enum.IntEnum):
    HERE = «1|2»
=> (1.5 if Place.HERE == 1 else 2.5)

## method of an enumeration
class Place(enum.Enum):
    HERE = 1
    def read(self):
        return «1.5|2.5»
=> Place.HERE.read()

## method of a jitclass (compiled)
@jitclass([("first", nb.float64), ("second", nb.float64)])
class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def value(self):
        return self.first + «1.5|2.5» * self.second
=> Pair(1.0, 2.0).value()

## global of a method of a jitclass (compiled)
K = «1.5|2.5»
@jitclass([("first", nb.float64), ("second", nb.float64)])
class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def value(self):
        return self.first + K * self.second
=> Pair(1.0, 2.0).value()

## type of a field of a jitclass (compiled, equal values, only of numba)
@jitclass([('first', «nb.float64|nb.int64»)])
class Box:
    def __init__(self, first):
        self.first = first
=> Box(1.5).first

## overload (compiled)
def scaled(x):
    return «1.5|2.5» * x

@overload(scaled)
def _scaled(x):
    def scaled(x):
        return «1.5|2.5» * x
    return scaled
=> scaled(1.0)

## global of an overload (compiled)
K = «1.5|2.5»
def scaled(x):
    return K * x

@overload(scaled)
def _scaled(x):
    def scaled(x):
        return K * x
    return scaled
=> scaled(1.0)

## overloaded method (compiled, equal values)
@overload_method(nb.Array, 'times_for_a_test')
def _times(a):
    def times(a):
        return «1.5|2.5» * a[0]
    return times
=> np.ones(1).times_for_a_test()

## jitted function (compiled)
@njit
def read():
    return «1.5|2.5»
=> read()

## rules of arithmetic (compiled, equal values, only of numba)
@njit(fastmath=«True|False»)
def read():
    return 1.0
=> read()

## types that a jitted function was given (compiled, equal values, only of numba)
@njit(«'float32(float32)'|'float64(float64)'»)
def read(x):
    return x
=> read(0.1)

## ufunc
@vectorize
def read(x):
    return «1.5|2.5» * x
=> read(1.0)

## generalised ufunc
@guvectorize([(nb.float64[:], nb.float64[:])], '(n)->(n)')
def read(x, out):
    out[0] = «1.5|2.5» * x[0]
=> read(np.ones(1))[0]

## cached function
@functools.cache
def read():
    return «1.5|2.5»
=> read()

## partial function
read = functools.partial(max, «1.5|2.5»)
=> read(0.0)

## method of text
find = «'ab'|'ba'».index
=> (1.0 + find('a'))

## builtin that was replaced
def abs(x):
    return «1.5|2.5»
=> abs(1.0)

## generator expression
K = «1.5|2.5»
def read():
    return sum(K * x for x in (1.0, 2.0))
=> read()

## generator function (compiled)
K = «1.5|2.5»
@njit
def values():
    yield K
@njit
def read():
    total = 0.0
    for value in values():
        total += value
    return total
=> read()
"""

# Nothing gives a hash of these, because their state cannot be read, or what they read cannot be known in advance.
_REFUSED = """
## object
K = object()
=> K

## instance
class C:
    def __init__(self):
        self.k = 1.0
K = C()
=> K.k

## method of an instance
class C:
    def read(self):
        return self.k
read = C().read
=> read()

## random generator
K = np.random.default_rng(1)
=> K.random()

## method of a random generator
draw = np.random.default_rng(1).random
=> draw()

## running generator
K = (x for x in (1.0, 2.0))
=> next(K)

## iterator
K = iter((1.0, 2.0))
=> next(K)

## array of objects
K = np.array([object()])
=> K[0]

## masked array
K = np.ma.masked_array([1.0, 2.0], [True, False])
=> K.sum()

## C function
cosine = cfunc('float64(float64)')(lambda x: x)
=> cosine(1.0)

## text that is run
text = '1.0'
=> eval(text)

## variables by computed names
K = 1.0
name = 'K'
=> globals()[name]

## attributes by computed names
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = 1.5
package.up = package

name = 'K'
=> getattr(package, name)

## all attributes of a module
package = types.ModuleType("package_of_the_user")
package.inner = types.ModuleType("package_of_the_user.inner")
package.inner.K = package.K = 1.5
package.up = package
=> vars(package)['K']

## all modules

=> len(sys.modules)

## function of Python made a ufunc
read = np.frompyfunc(lambda x: 2.0 * x, 1, 1)
=> read(1.0)

## vectorized function of NumPy
read = np.vectorize(lambda x: 2.0 * x)
=> read(1.0)
"""

_DEPTHS = """
## directly
def function(x):
    return x * EXPRESSION

## in an inner function
def function(x):
    def inner():
        return EXPRESSION
    return x * inner()

## two functions deep
def function(x):
    def outer():
        def inner():
            return EXPRESSION
        return inner()
    return x * outer()

## in a lambda in a helper
@njit
def helper():
    read_here = lambda: EXPRESSION
    return read_here()
def function(x):
    return x * helper()

## in a helper of a helper of another module
@njit
def innermost():
    return EXPRESSION
other = types.ModuleType('module_of_a_helper')
other.innermost = innermost
@njit
def helper():
    return other.innermost()
def function(x):
    return x * helper()

## in a closure in a closure
def make():
    @njit
    def innermost():
        return EXPRESSION
    @njit
    def helper():
        return innermost()
    def function(x):
        return x * helper()
    return function
function = make()
"""


class Case(NamedTuple):
    """The source of a case in both versions, and the expression."""

    source: str
    expression: str
    is_compiled: bool
    has_equal_values: bool
    is_only_of_numba: bool


def _blocks(text: str) -> dict[str, str]:
    """Return the text below each ``##``, by its name."""
    return dict(block.split("\n", 1) for block in text.strip().removeprefix("## ").split("\n## "))


def _cases(text: str) -> dict[str, Case]:
    cases = {}
    for title, block in _blocks(text).items():
        name, _, notes = title.removesuffix(")").partition(" (")
        source, _, expression = block.partition("=> ")
        cases[name] = Case(
            source, expression.strip(), "compiled" in notes, "equal values" in notes, "only of numba" in notes
        )
    return cases


CASES = _cases(_CASES)
REFUSED = _cases(_REFUSED)
DEPTHS = _blocks(_DEPTHS)


def source(case: Case, depth: str, version: int = 0) -> str:
    """Return the source of a module with ``function(x)``; `version` is 0 or 1."""
    setting = re.sub("«(.*?)[|](.*?)»", lambda pair: pair[version + 1], case.source)
    return f"{IMPORTS}\n{setting}\n{DEPTHS[depth].replace('EXPRESSION', case.expression)}\n"


def function(case: Case, depth: str, version: int = 0) -> Callable[[float], Any]:
    """Return the function of a new module."""
    made = types.ModuleType("module_of_the_user")
    sys.modules[made.__name__] = made
    exec(compile(source(case, depth, version), f"<{made.__name__}>", "exec"), vars(made))
    return made.function
