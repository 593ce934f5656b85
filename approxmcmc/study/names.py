"""Names that a study gives its settings and targets for readers."""

from collections.abc import Mapping


def spelled(label: str, names: Mapping[str, str]) -> str:
    """Return a label as the study's `names` spell it; unchanged if they name neither it nor its family.

    Examples
    --------
    >>> names = {"walk": "random walk", "n_draws": "draws"}
    >>> spelled("walk", names), spelled("walk[scale=0.2, n_draws=5]", names), spelled("t_test_10", names)
    ('random walk', 'random walk [scale 0.2, draws 5]', 't_test_10')
    """
    if label in names:
        return names[label]
    family, bracket, knobs = label.partition("[")
    if family not in names:
        return label
    values = [_knob(*knob.strip().partition("=")[::2], names) for knob in knobs.rstrip("]").split(",")]
    return f"{names[family]} [{', '.join(values)}]" if bracket else names[family]


def _knob(name: str, value: str, names: Mapping[str, str]) -> str:
    """Return a knob and its value in words."""
    plain = value.strip("'\"").removesuffix(".0")
    return f"{names.get(name, name.replace('_', ' '))} {names.get(plain, plain)}"
