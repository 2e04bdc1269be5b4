"""One chart of a report, drawn with matplotlib as SVG that stands inside the page.

A chart takes the page's colours, so one drawing serves light and dark screens and paper. The same numbers
give the same bytes: nothing in a chart is random or dated.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:  # matplotlib takes a second to import, and the JSON of a report needs none
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
WIDTH, HEIGHT = 720, 320
# The page's style sheet has a value of each variable for light, dark and print. These are the light ones.
COLOURS = {
    "text": "#1b1f24",
    "soft": "#57606a",
    "rule": "#d4d9df",
    "live": "#1a7f4b",
    "new": "#0b62c4",
    "future": "#7b4fb5",
}
# An artist whose id begins so gets a class of that name in the page.
CLASS = "class-"
SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"


class Chart:
    """Axes to draw on, and the SVG that comes of them."""

    def __init__(self, name: str, label: str, x_label: str) -> None:
        from matplotlib.figure import Figure

        self.name, self.label = name, label
        self.figure: Figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
        # Places are given, not computed from the sizes of texts: fonts differ between machines.
        self.axes: Axes = self.figure.add_axes((52 / WIDTH, 56 / HEIGHT, 650 / WIDTH, 246 / HEIGHT))
        self.axes.spines[:].set_visible(False)
        self.axes.tick_params(length=0, labelcolor=COLOURS["soft"], labelsize=12, pad=7)
        self.axes.grid(axis="y", color=COLOURS["rule"], linewidth=1)
        self.axes.set_axisbelow(True)
        self.axes.set_xlabel(x_label, color=COLOURS["soft"], fontsize=12, labelpad=7)
        for background in (self.figure.patch, self.axes.patch):
            background.set_visible(False)

    def line(self, points: Sequence[Point], kind: str, colour: str, **style: object) -> None:
        """Draw a line; `kind` becomes its class in the page."""
        if points:
            x, y = zip(*points, strict=True)
            self.axes.plot(x, y, color=COLOURS[colour], gid=CLASS + kind, **style)  # type: ignore[arg-type]

    def percentages(self, low: float = 0.0) -> None:
        """Let the vertical axis run from `low` to 100 %."""
        from matplotlib.ticker import FuncFormatter, LinearLocator

        self.axes.set_ylim(low, 1.0)
        self.axes.yaxis.set_major_locator(LinearLocator(5))
        self.axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))

    def svg(self) -> str:
        """Return the drawing as an element of an HTML page."""
        for artist in self.figure.findobj():
            # Everything lies within the axes, and the page needs no references to clip paths.
            artist.set_clip_on(False)
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with _settings(self.name):
            self.figure.savefig(file, format="svg", metadata=nothing)
        return _element(file.getvalue(), self.label)


@contextmanager
def _settings(name: str) -> Iterator[None]:
    import matplotlib

    # Texts stay texts: they are found, read aloud and drawn in the page's font. The salt gives markers the
    # same ids in every drawing of a chart, and other ids than those of the page's other charts.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"fedsgt {name}"}):
        yield


def _element(text: str, label: str) -> str:
    """Turn matplotlib's document into one element, without what only a file needs."""
    root = ElementTree.fromstring(text)
    _prune(root)
    used = {place.get(f"{XLINK}href") for place in root.iter(f"{SVG}use")}
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        _rename(element, used)
    root.attrib = {
        "class": "chart",
        "viewBox": f"0 0 {WIDTH} {HEIGHT}",
        "role": "img",
        "aria-label": label,
    }
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))


def _prune(element: ElementTree.Element) -> None:
    """Take out metadata, the style sheet, which would apply to the whole page, and groups left empty."""
    for child in [*element]:
        _prune(child)
        kind = child.tag.rpartition("}")[2]
        if kind in ("metadata", "style") or (kind in ("g", "defs") and not len(child)):
            element.remove(child)


def _rename(element: ElementTree.Element, used: set[str | None]) -> None:
    """Drop ids that nothing refers to, which other charts have too, and put variables for colours."""
    name = element.attrib.pop("id", "")
    if name.startswith(CLASS):
        element.set("class", name.removeprefix(CLASS))
    elif f"#{name}" in used:
        element.set("id", name)
    if (target := element.attrib.pop(f"{XLINK}href", None)) is not None:
        element.set("xlink:href", target)
    if (style := element.get("style")) is not None:
        for variable, colour in COLOURS.items():
            style = style.replace(colour, f"var(--{variable})")
        # The page says which font its texts have.
        element.set("style", re.sub(r"font[\w-]*:[^;]*;?\s*", "", style).strip())
