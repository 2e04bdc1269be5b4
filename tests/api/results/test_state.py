"""Clients, status and forecast as objects: words, JSON and tables."""

from __future__ import annotations

import math

from fedsgt.api.results.state import ClientInfo, Clients, Forecast

CLIENTS = Clients(
    (
        ClientInfo("<script>alert(1)</script>", 30, 12, 2, (0, 3), False),
        ClientInfo("b", 1, 0, 1, (1,), True),
    )
)


def test_clients_are_a_sequence() -> None:
    assert len(CLIENTS) == 2
    assert [one.name for one in CLIENTS] == CLIENTS.names
    assert CLIENTS[1].remote
    assert CLIENTS[:1] == (CLIENTS[0],)
    assert CLIENTS.to_json()[0] == {
        "name": "<script>alert(1)</script>",
        "records": 30,
        "left": 12,
        "slices": 2,
        "groups": [0, 3],
        "remote": False,
    }
    assert repr(CLIENTS).startswith("<2 clients: ")


def test_names_from_outside_are_escaped_for_notebooks() -> None:
    shown = CLIENTS._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_a_forecast_may_have_no_end_and_no_accuracy() -> None:
    forecast = Forecast((1.0, 0.5), (3.0, 1.5), (), math.inf, (1.0, 0.5), math.inf)
    assert forecast.to_json()["requests_left"] is None
    assert "1 further request with 50.0%" in repr(forecast)
    assert "not known" in forecast._repr_html_()
    assert "61.2%" in Forecast((1.0, 0.5), (3.0, 1.5), (0.7, 0.612), 2.0, (1.0, 0.5), 2.0)._repr_html_()


def test_a_forecast_with_solved_heads_never_ends_while_a_record_is_left() -> None:
    forecast = Forecast((1.0, 1.0), (3.0, 1.5), (), math.inf, (1.0, 0.5), 5.6)
    assert "never exhausted while a record is left" in repr(forecast)
    assert "with 50.0%" in repr(forecast)
    assert (forecast.to_json()["requests_left"], forecast.to_json()["until_no_module"]) == (None, 5.6)
