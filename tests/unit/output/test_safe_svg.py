"""A picture keeps what matplotlib draws, and loses everything by which it could act on the page around it."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from approxmcmc.errors import StudyError
from approxmcmc.study.report.safe_svg import safe_svg
from approxmcmc.study.report.svg import subplots

pytest.importorskip("matplotlib")
HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '

ATTACKS = [
    "<script>alert(1)</script>",
    '<script xlink:href="http://evil/x.js"/>',
    '<g onclick="alert(1)" onload="alert(1)"/>',
    "<foreignObject><body xmlns='http://www.w3.org/1999/xhtml'><script>alert(1)</script></body></foreignObject>",
    "<h:script xmlns:h='http://www.w3.org/1999/xhtml'>alert(1)</h:script>",
    '<a xlink:href="javascript:alert(1)"><text>here</text></a>',
    '<use xlink:href="http://evil/x.svg#a"/>',
    '<use href="data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=#a"/>',
    '<image href="http://evil/x.png"/>',
    '<image href="data:image/svg+xml;base64,PHN2Zz48L3N2Zz4="/>',
    '<animate attributeName="href" to="javascript:alert(1)"/>',
    '<set attributeName="onload" to="alert(1)"/>',
    '<path style="fill: url(http://evil/x)"/>',
    '<path style="fill: u\\72l(http://evil/x)"/>',
    '<path fill="url(http://evil/x)"/>',
    '<path style="position: fixed; width: 100%"/>',
    "<style>@import url(http://evil/x.css);</style>",
    "<style>body { visibility: hidden }</style>",
    "<style>* { background: url(http://evil/x) }</style>",
    "<style>.a { fill: red } </style><style>&lt;/style>&lt;script>alert(1)&lt;/script></style>",
    '<text aria-label="&quot; onload=&quot;alert(1)">&lt;script>alert(1)&lt;/script></text>',
    "<?xml-stylesheet href='http://evil/x.css'?><!-- <script>alert(1)</script> -->",
    "<metadata><script>alert(1)</script></metadata>",
]


def dangers(document):
    """Return what a browser would run, load or apply outside of the picture."""
    root = ElementTree.fromstring(document)  # an attribute or a text with < or " stays one
    found = re.findall(r"<\?|<!", document)
    for element in root.iter():
        name = element.tag.removeprefix("{http://www.w3.org/2000/svg}")
        if name in ("script", "foreignObject", "a", "animate", "set", "metadata") or "{" in name:
            found.append(name)
        found += [key for key in element.attrib if key.startswith("on")]
        values = [value for key, value in element.attrib.items() if key != "aria-label"]
        found += [value for value in values if re.search("evil|javascript|svg.xml|position", value)]
        if name == "style":
            found += re.findall("evil|body|background|import|script", element.text or "")
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_picture_does_not_need_is_left_out(attack):
    document = f'{HEAD}width="1"><path id="kept" d="M 0 0 L 1 1" style="stroke: #fff"/>{attack}</svg>'
    cleaned = safe_svg(document)
    assert dangers(cleaned) == []
    assert '<path id="kept" d="M 0 0 L 1 1" style="stroke: #fff"/>' in cleaned
    assert dangers(document) or "aria-label" in attack or "&lt;" in attack  # the check sees the attack
    assert safe_svg(cleaned) == cleaned


@pytest.mark.parametrize(
    "document",
    [
        "",
        "<html/>",
        "<svg",
        '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
    ],
)
def test_other_documents_are_refused(document):
    with pytest.raises(StudyError, match="A picture is not drawn"):
        safe_svg(document)


@pytest.mark.thorough
def test_nothing_that_matplotlib_draws_is_left_out(monkeypatch):
    """But its metadata, and the line that names the type of the document."""
    figure, axes = subplots()
    axes.plot([0, 1], [0, 1], "s--", label="a < b & 'c'")
    axes.fill_between([0, 1], [0, 1], hatch="//", alpha=0.3)
    axes.imshow(np.eye(3), extent=(0, 1, 0, 1))
    axes.set_title('$\\theta^2$ "quoted"')
    axes.legend()
    monkeypatch.setattr("approxmcmc.study.report.svg.safe_svg", lambda document: document)
    from approxmcmc.study.report.svg import svg_document

    before = ElementTree.fromstring(svg_document(figure))
    after = ElementTree.fromstring(safe_svg(svg_document(figure)))
    for element in before.findall("{http://www.w3.org/2000/svg}metadata"):
        before.remove(element)

    def parts(root):
        return [(element.tag, element.attrib, (element.text or "").strip()) for element in root.iter()]

    assert parts(after) == parts(before) and len(parts(after)) > 50
