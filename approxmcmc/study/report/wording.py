"""Numbers as words: one rule for significant digits, powers of ten, intervals and blanks; and the order of the data."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from approxmcmc.study.report.evidence import Contest

# Spelling of names of settings, data sets and gates that differs from the code's: whole names, then single words.
NAMES = {
    "bfmi": "energy (BFMI)", "bulk_ess": "bulk ESS", "core_sum": "influential rows (all rows)",
    "core_exact_10": "influential rows (exact, every tenth step)", "dense_1e5": "dense simulated",
    "emcee_stretch": "stretch move of emcee", "logistic_1e5": "simulated logistic",
    "nutpie_short": "nutpie (short warm-up)", "pymc_advi": "ADVI of PyMC", "pymc_nuts": "NUTS of PyMC",
    "r_hat": "R-hat", "relative_mcse": "relative MCSE", "second_bulk_ess": "bulk ESS, second kernel",
    "second_kernel": "difference of two kernels", "second_r_hat": "R-hat, second kernel",
    "stein_gradient": "Stein's identity, first", "stein_identity": "Stein's identity, second",
    "student_t": "Student's t", "tail_ess": "tail ESS",
}  # fmt: skip
SPELLED = {word: word.upper() for word in ("bergm", "gimh", "mala", "mcwm", "mnist", "sghmc", "sgld")} | {
    word: word.capitalize() for word in (
        "barker", "bernstein", "covertype", "firefly", "fisher", "gibbs", "langevin", "laplace", "metropolis",
        "poisson", "taylor", "tuna",
    )
} | {"7v9": "7 and 9", "austerity": "t-test", "kdd99": "KDD99"}  # fmt: skip
COUNTS = {"n_auxiliary": "auxiliary draw", "n_draws": "draw", "n_updates": "update"}
NO_INTERVAL = "[no interval]"
LARGEST_COUNT = 1e7  # a larger one is rounded
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(exponent: int) -> str:
    """Return "10⁻³" for -3, in plain characters without mathematical markup."""
    return "10" + str(exponent).translate(_SUPERSCRIPTS)


def number(value: Any, spec: str = "") -> str:
    """Return a number with three significant digits, or by `spec`; "" for NaN and None, "∞" for infinity.

    Examples
    --------
    >>> number(0.0123456), number(1234567), number(2.5e-7), number(float("nan"))
    ('0.0123', '1,234,567', '2.50×10⁻⁷', '')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if spec:
        return format(value, spec).replace("-", "−")
    if float(value).is_integer() and abs(value) < LARGEST_COUNT:
        return f"{int(value):,}".replace("-", "−")
    exponent = _exponent(float(value))
    if -3 <= exponent < 5:
        return _fixed(float(value), exponent)
    return f"{_fixed(value / 10.0**exponent, 0)}×{power_of_ten(exponent)}"


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
    known = 1 - _exponent(half) if math.isfinite(half) and half > 0.0 else most
    if lower * upper > 0.0:
        known = max(known, -_exponent(value / scale))
    decimals = f",.{max(0, min(most, known))}f"
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


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 chain" or "8 chains"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def setting_in_words(label: str) -> str:
    """Return the name of a setting in words.

    Examples
    --------
    >>> setting_in_words("control_variates[epsilon=0.2,batch_size=500]"), setting_in_words("core_t_test")
    ('control variates (epsilon 0.2, batch size 500)', 'influential rows (t-test)')
    >>> setting_in_words("t_test_05"), setting_in_words("gibbs[scan='random']")
    ('t-test 0.05', 'Gibbs (random scan)')
    """
    code, _, knobs = re.sub(r"[\\\]'\"]", "", label).partition("[")
    name = NAMES.get(code) or " ".join(SPELLED.get(word, word) for word in code.split("_"))
    name = re.sub(r"t test (?=\d)", "t-test 0.", name).replace("t test", "t-test")
    name = re.sub(r"^core (.+)", r"influential rows (\1)", name)
    told = [_knob(*knob.strip().partition("=")[::2]) for knob in knobs.split(",")]
    return f"{name} ({', '.join(told)})" if knobs else name


def _knob(name: str, value: str) -> str:
    """Return a knob and its value in words: "epsilon 0.2", "5 draws", "tuned bound"."""
    if name in COUNTS:
        return counted(int(value), COUNTS[name])
    knob = name.replace("_", " ")
    return f"{knob} {value.removesuffix('.0')}" if value[:1].isdigit() else f"{SPELLED.get(value, value)} {knob}"


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
    return 0 if value == 0.0 else math.floor(math.log10(abs(value)))


def _fixed(value: float, exponent: int) -> str:
    return f"{value:,.{max(0, 2 - exponent)}f}".replace("-", "−")


def data_order(contests: "Iterable[Contest]") -> str:
    """Return a sentence that lists the settings by the order in which their decisions read the data.

    The name of the target is added to a setting if there are several targets.
    """
    contests = list(contests)
    listed: dict[str, list[str]] = {}
    for contest in contests:
        for label, traces in contest.traces.items():
            name = f"{label} on {contest.target}" if len(contests) > 1 else label
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
    "blocks of 512 rows of the chain's own shuffled copy"
    """
    order = attrs.get("data_order")
    if order == "rows":
        return "fresh random rows for every decision"
    if order == "blocks":
        return f"blocks of {counted(int(attrs['block_size']), 'row')} of the chain's own shuffled copy"
    return "no random subset: decisions read all data in memory order, rows that the sampler draws, or nothing"
