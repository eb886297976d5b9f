"""Makes matplotlib's SVG fit for a page: themed by CSS, named for screen readers, no inline style.

Colours are drawn as placeholders and leave here as classes, so that one picture serves light,
dark and paper, and a strict Content-Security-Policy (no style attributes) holds.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
# Role -> the colour that stands for it while drawing.
PALETTE = {
    "ink": "#000011",
    "quiet": "#000022",
    "grid": "#000033",
    "candidate": "#000044",
    "reference": "#000055",
    "again": "#000066",
    "limit": "#000077",
    "band": "#000088",
    "control": "#000099",
}
_ROLES = {colour: role for role, colour in PALETTE.items()}
# The same rules serve a picture in the page and one that was saved on its own.
STYLE = """
.s-ink{stroke:var(--ink)}.f-ink{fill:var(--ink)}
.s-quiet{stroke:var(--quiet)}.f-quiet{fill:var(--quiet)}
.s-grid{stroke:var(--rule)}.f-grid{fill:var(--rule)}
.s-candidate{stroke:var(--accent)}.f-candidate{fill:var(--accent)}
.s-reference{stroke:var(--curve)}.f-reference{fill:var(--curve)}
.s-again{stroke:var(--quiet)}.f-again{fill:var(--quiet)}
.s-limit{stroke:var(--ink)}.f-limit{fill:var(--ink)}
.s-band{stroke:var(--band)}.f-band{fill:var(--band)}
.s-control{stroke:var(--alarm)}.f-control{fill:var(--alarm)}
"""


def themed(raw: str, name: str, title: str, description: str, palette: str) -> tuple[str, str]:
    """(markup to put into a page, text of a file of its own).

    raw: as matplotlib wrote it; name: unique in the page, prefix of all ids; palette: CSS that
    defines the variables of `STYLE` for the file of its own.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(raw)
    for tag in ("metadata",):
        for element in root.findall(f"{{{SVG}}}{tag}"):
            root.remove(element)
    for defs in root.iter(f"{{{SVG}}}defs"):
        for style in defs.findall(f"{{{SVG}}}style"):
            defs.remove(style)
    for element in root.iter():
        _unstyle(element)
        _prefix_ids(element, name)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    root.set("stroke-linejoin", "round")
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{{{SVG}}}{tag}", {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(position, element)
    inline = ElementTree.tostring(root, encoding="unicode")
    own = ElementTree.Element(f"{{{SVG}}}style")
    own.text = f"{palette}{STYLE}text{{font-family:sans-serif}}"
    root.insert(2, own)
    return inline, ElementTree.tostring(root, encoding="unicode") + "\n"


def _unstyle(element: ElementTree.Element) -> None:
    """Turn a style attribute into presentation attributes and classes."""
    classes = []
    for declaration in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if not name:
            continue
        if name == "font":
            name, value = "font-size", value.split("px")[0]
        role = _ROLES.get(value.lower())
        if name in ("fill", "stroke") and role:
            classes.append(f"{name[0]}-{role}")
        else:
            element.set(name, value)
    for name in ("fill", "stroke"):
        if role := _ROLES.get(element.get(name, "").lower()):
            del element.attrib[name]
            classes.append(f"{name[0]}-{role}")
    if classes:
        element.set("class", " ".join(classes))


def _prefix_ids(element: ElementTree.Element, name: str) -> None:
    """Ids are unique in the page: several pictures would else share matplotlib's own."""
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    href = f"{{{XLINK}}}href"
    if element.get(href, "").startswith("#"):
        element.set(href, f"#{name}-{element.attrib[href][1:]}")
    for key, value in element.attrib.items():
        if "url(#" in value:
            element.set(key, re.sub(r"url\(#", f"url(#{name}-", value))
