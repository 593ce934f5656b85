"""Numbers as words: one rule for significant digits, powers of ten, intervals and blanks; and the order of the data."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from approxmcmc.study.names import spelled

if TYPE_CHECKING:
    from approxmcmc.study.report.evidence import Contest

LIST = re.compile(r", (?![^\[]*\])")  # the commas between labels, not those inside brackets
NO_INTERVAL = "[no interval]"
LARGEST_COUNT = 1e7  # a larger one is rounded
SMALLEST_EXPONENT = -323  # of a positive power of ten
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(exponent: int) -> str:
    """Return "10⁻³" for -3, in plain characters without mathematical markup."""
    return "10" + str(exponent).translate(_SUPERSCRIPTS)


def number(value: Any, spec: str = "") -> str:
    """Return a number with three significant digits, or by `spec`; "" for NaN and None, "∞" for infinity.

    Examples
    --------
    >>> number(0.0123456), number(1234567), number(2.5e-7), number(9.999e-8), number(float("nan"))
    ('0.0123', '1,234,567', '2.50×10⁻⁷', '1.00×10⁻⁷', '')
    """
    if value is None or math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if spec:
        return format(value, spec).replace("-", "−")
    size = float(value)
    if size.is_integer() and abs(size) < LARGEST_COUNT:
        return f"{int(value):,}".replace("-", "−")
    exponent = _exponent(size)
    if -3 <= exponent < 5:
        return _fixed(size, exponent)
    return f"{_fixed(size / 10.0**exponent, 0)}×{power_of_ten(exponent)}"


def interval(lower: float, upper: float, spec: str = "") -> str:
    """Return "[lower, upper]", or "[no interval]" if an end is NaN (fewer than five replicates, no audits)."""
    if math.isnan(lower) or math.isnan(upper):
        return NO_INTERVAL
    return f"[{number(lower, spec)}, {number(upper, spec)}]"


def estimate(value: float, lower: float, upper: float, spec: str = "") -> tuple[str, str]:
    """Return two texts, an estimate and its interval; the three numbers share one power of ten, or one %.

    The interval keeps two digits of its half-width, and the estimate as many decimals; without an interval it has three
    significant digits.

    Examples
    --------
    >>> estimate(2.5e-7, 1e-7, 4.25e-7)
    ('2.5', '[1.0, 4.2] ×10⁻⁷')
    >>> estimate(-2.7412, -8.1, 2.64)
    ('−2.7', '[−8.1, 2.6]')
    >>> estimate(0.035812, 0.03312, 0.03847)
    ('0.0358', '[0.0331, 0.0385]')
    >>> estimate(2e-6, 1e-8, 4e-3)
    ('0.02', '[0.00, 40.00] ×10⁻⁴')
    >>> estimate(0.05, 0.01, 0.1, ".1%")
    ('5.0', '[1.0, 10.0] %')
    >>> estimate(float("inf"), 12.5, float("inf"))
    ('∞', '[12.5, ∞]')
    >>> estimate(float("nan"), 0.0, 1.0)
    ('', '')
    """
    value = float(value)
    lower = float(lower)
    upper = float(upper)
    if math.isnan(value):
        return "", ""
    if spec.endswith("%"):
        percent = [100.0 * x for x in (value, lower, upper)]
        centre = number(percent[0], f"{spec[:-1]}f")
        bracket = interval(percent[1], percent[2], f"{spec[:-1]}f")
        return (f"{centre} %", bracket) if bracket == NO_INTERVAL else (centre, f"{bracket} %")
    if spec or math.isinf(value):
        return number(value, spec), interval(lower, upper, spec)
    finite = [x for x in (value, lower, upper) if math.isfinite(x)]
    if all(x.is_integer() for x in finite):
        return number(value), interval(lower, upper)
    exponent = _exponent(max(map(abs, finite)))
    if lower * upper > 0.0:  # an interval over several decades that excludes 0: its estimate keeps a digit
        exponent = min(exponent, _exponent(value) + 2)
    scaled = exponent < -2 or exponent >= 6
    scale = 10.0**exponent if scaled else 1.0
    most = 2 if scaled else 2 - exponent
    half = (upper - lower) / (2.0 * scale)
    decimals_shown = 1 - _exponent(half) if math.isfinite(half) and half > 0.0 else most
    if lower * upper > 0.0:
        decimals_shown = max(decimals_shown, -_exponent(value / scale))
    decimals = f",.{max(0, min(most, decimals_shown))}f"
    centre = number(value / scale, decimals)
    bracket = interval(lower / scale, upper / scale, decimals)
    power = f" ×{power_of_ten(exponent)}" if scaled else ""
    return (_unsigned(centre) + power, bracket) if bracket == NO_INTERVAL else (_unsigned(centre), bracket + power)


def _unsigned(text: str) -> str:
    """Return a number as text, without a minus sign if it is zero."""
    return text.removeprefix("−") if re.fullmatch(r"−0[.0]*", text) else text


def estimate_text(value: float, lower: float, upper: float, spec: str = "") -> str:
    """Return an estimate and its interval as one string, for sentences."""
    return " ".join(part for part in estimate(value, lower, upper, spec) if part)


def brief(seconds: float) -> str:
    """Return seconds with at most three significant digits, as short as they are.

    Examples
    --------
    >>> brief(0.21972), brief(3.0), brief(1234.5)
    ('0.22', '3', '1,230')
    """
    rounded = float(f"{seconds:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100.0 else f"{rounded:g}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 chain" or "8 chains"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def naming(labels: Iterable[str], names: Mapping[str, str]) -> Callable[[str], str]:
    r"""Return a function of a text that replaces labels by their names.

    A text that is a label, or a list of labels with commas, becomes the names. Inside a sentence only those labels are
    replaced that are no English words, because they have an underscore, a digit or a bracket; also where Markdown or
    HTML has escaped them.

    Examples
    --------
    >>> worded = naming(["walk", "t_test", "walk[scale=2]"], {"walk": "random walk", "t_test": "sequential test"})
    >>> worded("walk"), worded("walk, t_test"), worded("a walk"), worded("Cost, walk")
    ('random walk', 'random walk, sequential test', 'a walk', 'Cost, random walk')
    >>> worded(r"walk\[scale=2\] and t_test")
    'random walk [scale 2] and sequential test'
    """
    words = {label: word for label in {*labels, *names} if (word := spelled(label, names)) != label}
    codes: dict[str, str] = {}
    for label in sorted(filter(re.compile(r"[_\d\[]").search, words), key=len, reverse=True):
        forms = (re.sub(r"([_\[\]])", r"\\\1", label), escape(label), label)
        codes |= dict.fromkeys(forms, words[label])
    pattern = re.compile(r"(?<![\w/])(" + "|".join(map(re.escape, codes)) + r")(?![\w\[]|\.\w)") if codes else None

    def worded(text: str) -> str:
        parts = [text] if text in words else LIST.split(text)
        if all(part in words for part in parts):
            return ", ".join(words[part] for part in parts)
        if len(parts) == 2 and parts[1] in words:  # a title that ends with its target
            return f"{worded(parts[0])}, {words[parts[1]]}"
        return pattern.sub(lambda match: codes[match[1]], text) if pattern else text

    return worded


def enumeration(names: list[str]) -> str:
    """Join names as in prose: "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def slug(title: str) -> str:
    """Return a title as a file name and page anchor: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "piece"


def unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, with a number appended if necessary, and mark it as taken."""
    candidate = name
    count = 1
    while candidate in taken:
        count += 1
        candidate = f"{name}-{count}"
    taken.add(candidate)
    return candidate


def _exponent(value: float) -> int:
    """Return the power of ten of a value rounded to three significant digits: 1 for 9.999, and 0 for 0."""
    _, exponent = f"{value:.2e}".split("e")
    return max(int(exponent), SMALLEST_EXPONENT)


def _fixed(value: float, exponent: int) -> str:
    return f"{value:,.{max(0, 2 - exponent)}f}".replace("-", "−")


def data_order(contests: "Iterable[Contest]", names: Mapping[str, str]) -> str:
    """Return a sentence that lists the settings, by their names, by the order in which their decisions read the data.

    The name of the target is added to a setting if there are several targets.
    """
    contests = list(contests)
    listed: dict[str, list[str]] = {}
    for contest in contests:
        for label, traces in contest.traces.items():
            name = spelled(label, names)
            if len(contests) > 1:
                name = f"{name} on {spelled(contest.target, names)}"
            listed.setdefault(words(traces[0]["posterior"].attrs), []).append(name)
    if len(listed) == 1:
        return f"{next(iter(listed))} (all settings)"
    return "; ".join(f"{order}: {', '.join(labels)}" for order, labels in listed.items())


def words(attrs: Mapping[Any, Any]) -> str:
    """Return the order of the data in words, from the attributes of a trace.

    Examples
    --------
    >>> words({"data_order": "rows"})
    'fresh random rows for every decision'
    >>> words({"data_order": "blocks", "block_size": 512})
    'blocks of 512 rows of a shuffled copy'
    """
    order = attrs.get("data_order")
    if order == "rows":
        return "fresh random rows for every decision"
    if order == "blocks":
        return f"blocks of {counted(int(attrs['block_size']), 'row')} of a shuffled copy"
    return (
        "no recorded order, since decisions read all data, or rows that the sampler draws by itself, or there are no "
        "decisions"
    )
