"""SVG documents with only those elements, attributes and styles that a picture needs.

A picture may come from a store that another user made, so its SVG is not trusted: inside a page it could run a script,
load something from the network, or restyle the page. What is not in the lists below is left out: scripts, event
handlers, foreign content, animations, addresses, imports. A reference may only name an id of the same document, and an
image must be inside the document. What matplotlib draws is in the lists.
"""

import re
from html import escape
from xml.etree import ElementTree

from approxmcmc.errors import StudyError

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
XML = "http://www.w3.org/XML/1998/namespace"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ELEMENTS = _words(
    """svg g defs style path use text tspan clipPath rect circle ellipse line polyline polygon image linearGradient
    radialGradient stop pattern title desc"""
)
# Properties of SVG that are attributes, and entries of a style.
PROPERTIES = _words(
    """fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-dasharray stroke-dashoffset stroke-linecap
    stroke-linejoin stroke-miterlimit opacity clip-path clip-rule stop-color stop-opacity text-anchor font font-family
    font-size font-style font-weight font-stretch font-variant dominant-baseline image-rendering shape-rendering
    mix-blend-mode visibility"""
)
ATTRIBUTES = PROPERTIES | _words(
    """id class style version d x y x1 y1 x2 y2 dx dy cx cy r rx ry width height viewBox points transform offset
    preserveAspectRatio clipPathUnits patternUnits patternContentUnits patternTransform gradientUnits
    gradientTransform role aria-label"""
)
REFERENCE = re.compile(r"#[\w.-]+")
IMAGE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]*")
LOCAL = re.compile(r"url\(#[\w.-]+\)")
VALUE = re.compile(r"[\w\s.,;:%+*#'\"()-]*")  # no slash and no backslash: no address, no comment, no escape
RULE = re.compile(r"\s*(\*|\.[\w-]+)\s*\{([^{}]*)\}\s*")


def safe_svg(document: str) -> str:
    """Return an SVG document without what a picture does not need; a safe document is returned unchanged.

    Raises
    ------
    StudyError
        When it is not an SVG document.
    """
    try:
        if "<!ENTITY" in document:
            raise ValueError("it declares entities")
        root = ElementTree.fromstring(document)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise StudyError(f"A picture is not drawn, because it is not an SVG document: {error}.") from error
    if _local(root) != "svg":
        raise StudyError(f"A picture is not drawn: it must be an SVG document, found {root.tag[:50]!r}.")
    return f'<svg xmlns="{SVG}" xmlns:xlink="{XLINK}"{_element(root)[4:]}\n'


def _element(element: ElementTree.Element) -> str:
    name = _local(element)
    attributes = "".join(
        f' {key}="{escape(value, quote=True)}"'
        for key, value in ((_prefixed(key), value) for key, value in element.attrib.items())
        if _is_harmless(name, key, value)
    )
    if name == "style":
        return f"<style{attributes}>{_harmless_rules(element.text or '')}</style>"
    inside = escape(element.text or "", quote=False) + "".join(
        (_element(child) if _is_known(child) else "") + escape(child.tail or "", quote=False) for child in element
    )
    return f"<{name}{attributes}>{inside}</{name}>" if inside else f"<{name}{attributes}/>"


def _is_known(element: ElementTree.Element) -> bool:
    return isinstance(element.tag, str) and _local(element) in ELEMENTS


def _local(element: ElementTree.Element) -> str:
    """Return the name of an element of SVG; the name of any other one keeps its namespace, and is not known."""
    return element.tag.removeprefix(f"{{{SVG}}}")


def _prefixed(key: str) -> str:
    return key.replace(f"{{{XLINK}}}", "xlink:").replace(f"{{{XML}}}", "xml:")


def _is_harmless(element: str, key: str, value: str) -> bool:
    if key in ("href", "xlink:href"):
        return bool((IMAGE if element == "image" else REFERENCE).fullmatch(value))
    if key == "style":
        return _are_harmless_entries(value)
    if key == "type":
        return value == "text/css"
    return key == "xml:space" or (key in ATTRIBUTES and (key == "aria-label" or _is_plain(value)))


def _are_harmless_entries(entries: str) -> bool:
    pairs = [entry.partition(":") for entry in entries.split(";") if entry.strip()]
    return all(name.strip() in PROPERTIES and _is_plain(value) for name, _, value in pairs)


def _is_plain(value: str) -> bool:
    """Return whether a value holds only numbers, words and functions of them, and references to the document itself."""
    rest = LOCAL.sub("", value)
    return "url" not in rest.lower() and VALUE.fullmatch(rest) is not None


def _harmless_rules(sheet: str) -> str:
    """Return the rules of a style sheet that choose all elements, or those of a class, and set harmless properties."""
    return "".join(rule[0] for rule in RULE.finditer(sheet) if _are_harmless_entries(rule[2]))
