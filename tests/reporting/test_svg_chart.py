"""One chart as an element of the page: its own words escaped, its colours the page's, and nothing random."""

from __future__ import annotations

import re

from fedsgt.reporting.svg_chart import COLOURS, HEIGHT, WIDTH, Chart


def drawn(name: str, label: str = "label") -> str:
    chart = Chart(name, label, "numbers")
    chart.percentages(0.5)
    chart.line([(0.0, 0.5), (1.0, 1.0)], "first", "live", linewidth=2)
    chart.line([(0.5, 0.75)], "dots", "new", linestyle="none", marker="o")
    chart.line([], "nothing", "soft")
    return chart.svg()


def test_the_same_numbers_give_the_same_bytes_and_charts_share_no_id() -> None:
    assert drawn("one") == drawn("one")
    ids = [set(re.findall(r' id="([^"]+)"', drawn(name))) for name in ("one", "two")]
    assert all(ids)
    assert not ids[0] & ids[1]


def test_a_chart_is_one_element_with_classes_and_variables() -> None:
    svg = drawn("one", 'a "label" <b>')
    assert svg.startswith('<svg class="chart"')
    assert f'viewBox="0 0 {WIDTH} {HEIGHT}"' in svg
    assert 'aria-label="a &quot;label&quot; &lt;b&gt;"' in svg
    assert re.findall(r'class="(\w+)"', svg) == ["chart", "first", "dots"]
    assert not any(colour in svg for colour in COLOURS.values())
    assert "var(--live)" in svg
    assert not re.search(r"<style|<metadata|font|clip-path", svg)


def test_percentages_run_from_the_lowest_to_all() -> None:
    assert re.findall(r">([\d.]+%)<", drawn("one")) == ["50%", "62.5%", "75%", "87.5%", "100%"]
