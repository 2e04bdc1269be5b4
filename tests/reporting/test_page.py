"""The page of a report: whole, safe to open, and true to the run."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest
from html_page import Page
from paper_run import delete, describe, fill, paper_run, rebuild

from fedsgt.certificates.keys import SigningKey
from fedsgt.certificates.signatures import sign
from fedsgt.cli.commands.runs import show
from fedsgt.engine.flower.traffic import ClientTraffic, Traffic
from fedsgt.ledger.kinds import Kind
from fedsgt.plans import rotations
from fedsgt.reporting.page import without_passwords
from fedsgt.reporting.report import write_report
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.traffic import add_traffic
from fedsgt.serving.accuracy import Accuracy, Evaluation, ExpectedAccuracy
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import accept


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = paper_run(tmp_path / "run", describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30]))
    fill(made)
    return made


def test_the_page_is_whole_and_needs_nothing_else(folder: RunFolder) -> None:
    delete(folder, 2)
    path = write_report(folder)
    page = Page(path)
    assert path == (folder.path / "report.html").resolve()
    assert page.position == folder.ledger.head()
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not re.search(r"(https?:)?//|@import|url\(", page.text)
    assert page.links == ["certificates/000003.json"]
    assert (path.parent / page.links[0]).is_file()
    for heading in ("Modules", "Unlearning curve", "Forecast", "Accuracy", "Requests and certificates"):
        assert heading in page.words
    assert "3 of 9" in page.words


def test_modules_are_drawn_once_in_their_state(folder: RunFolder) -> None:
    delete(folder, 2)
    rebuild(folder)
    delete(folder, 1)
    page = Page(write_report(folder))
    drawn = [page.classes.count(f"node {state}") for state in ("live", "new", "dead")]
    # Live: [0] and, with the group trained again, [2] and [2, 0]; the rest has group 1. One more is the key.
    assert drawn == [1 + 1, 2 + 1, 6 + 1]
    assert page.classes.count("trained") == 2 + 2  # in two charts, and in the key of each
    assert "trained again" in page.said


def test_what_comes_from_outside_is_escaped(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", 'a & "b"']
    about = describe([(0, 1), (1, 0)], [5, 5], names=names, label_names=["<img src=x>", "a&b"])
    folder = paper_run(tmp_path / "a <b> & c", about, "data.source=<i>'\"x")
    fill(folder)
    delete(folder, 0)
    (folder.path / "certificates" / "000003.json").write_text('{"<b>": 1}')
    page = Page(write_report(folder))
    assert not {"script", "img", "b>", "i"} & set(page.tags)
    assert "FedSGT run a <b> & c" in page.words
    assert "<img src=x>, a&b" in page.said
    assert "<i>'\"x" in page.said


def test_only_drawings_are_not_escaped() -> None:
    """Every other value of a template may hold a text from outside."""
    templates = files("fedsgt.reporting").joinpath("templates")
    found = [*templates.iterdir(), *templates.joinpath("sections").iterdir()]
    texts = [file.read_text(encoding="utf-8") for file in found if file.name.endswith(".j2")]
    assert len(texts) > 10
    marked = [mark for text in texts for mark in re.findall(r"([\w.]+) *\| *safe|(autoescape|Markup)", text)]
    assert sorted(name for name, other in marked) == [
        "accuracy_curves",
        "expected_accuracy",
        "seconds.svg",
        "timeline",
        "tree",
        "unlearning_curve",
    ]


def test_passwords_stay_out() -> None:
    text = 'ledger = "postgresql+psycopg://user:pa:ss/w@rd@host/db"\nurl = "s3://bucket/x"\n'
    assert (
        without_passwords(text) == 'ledger = "postgresql+psycopg://user:***@host/db"\nurl = "s3://bucket/x"\n'
    )


def test_a_certificate_that_does_not_hold_is_shown_as_such(folder: RunFolder) -> None:
    for group in range(2):
        delete(folder, group)
    place = folder.path / "certificates" / "000003.json"
    envelope = json.loads(place.read_text())
    envelope["body"]["run"] = "another"
    place.write_text(json.dumps(envelope))
    page = Page(write_report(folder))
    assert (page.classes.count("good"), page.classes.count("bad")) == (1, 1)
    assert "the signature does not hold" in page.said


def test_a_certificate_of_another_ledger_does_not_hold(folder: RunFolder, tmp_path: Path) -> None:
    delete(folder, 0)
    other = paper_run(tmp_path / "other", describe([(0, 1, 2)], [10, 20, 30]))
    fill(other)
    shutil.copy(folder.path / "signing.key", other.path)
    delete(other, 0)
    name = "certificates/000003.json"
    (folder.path / name).write_bytes((other.path / name).read_bytes())
    page = Page(write_report(folder))
    assert "the certificate of another request" in page.said
    assert "There is no certificate that holds" in page.said


def test_a_certificate_that_the_ledger_contradicts_does_not_hold(folder: RunFolder) -> None:
    delete(folder, 0)
    place = folder.path / "certificates" / "000003.json"
    body = json.loads(place.read_text())["body"]
    body["completion"]["ledger_hash"] = "0" * 64
    place.write_text(json.dumps(sign(body, SigningKey.read(folder.path / "signing.key"))))
    page = Page(write_report(folder))
    assert "the ledger has another entry at position 5" in page.said
    assert "good" not in page.classes


def test_a_request_under_way_has_no_certificate_yet(folder: RunFolder) -> None:
    accept(folder, [Deletion("client-1", slices=(0,))])
    page = Page(write_report(folder))
    assert "not there yet" in page.said
    assert page.links == []


def test_without_requests_there_is_nothing_to_prove(folder: RunFolder) -> None:
    page = Page(write_report(folder))
    assert "No deletion was asked for so far." in page.said
    assert "There is no certificate that holds" in page.said


def test_an_exhausted_run_says_so(folder: RunFolder) -> None:
    delete(folder, 0, 1, 2)
    page = Page(write_report(folder))
    assert "Exhausted: no module is live." in page.words
    assert "alarm" in page.classes
    assert "Forecast" not in page.words


def test_plans_of_branches_and_large_plans_make_small_pages(tmp_path: Path) -> None:
    for name, sequences, groups in (
        ("tree", ((0, 1, 2, 3), (0, 1, 3), (2, 3), (0, 2)), 4),
        ("large", rotations(60).sequences, 60),
    ):
        folder = paper_run(tmp_path / name, describe(sequences, [5] * groups))
        fill(folder, lambda prefix: len(prefix) == 1)
        path = write_report(folder)
        page = Page(path)
        assert path.stat().st_size < 600_000
    assert "30 more sequences are not drawn." in page.said


def test_a_module_that_sequences_share_is_drawn_once(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1, 2), (0, 1, 3), (0, 2)], [5] * 4))
    fill(folder)
    page = Page(write_report(folder))
    assert page.classes.count("node live") == 5 + 1  # and one in the key
    assert page.classes.count("edge") == 4


def test_requests_name_their_clients(tmp_path: Path) -> None:
    names = ["St. Mary's <b>", "hospital-7", "c", "d", "e"]
    folder = paper_run(tmp_path / "run", describe([range(5)], [5] * 5, names=names))
    fill(folder)
    delete(folder, 0, 1)
    delete(folder, 0, 1, 2, 3, 4, index=1)
    page = Page(write_report(folder))
    assert "St. Mary's <b>, hospital-7 2 slices (10 records)" in page.said
    assert "St. Mary's <b>, hospital-7, c and 2 more 5 slices (25 records)" in page.said
    assert "b>" not in page.tags


def test_time_has_an_axis(folder: RunFolder) -> None:
    delete(folder, 2)
    page = Page(write_report(folder))
    assert "Over time" in page.words
    assert page.classes.count("request") == 2, "in the chart, and in its key"
    assert f"time (UTC), {datetime.now(UTC):%Y-%m-%d}" in page.said


def evaluated(folder: RunFolder, strategies: dict[str, Accuracy], ahead: float) -> None:
    """Write an evaluation on 1,000 test records, on which the first strategy is right only if all are."""
    served = folder.live().prefixes(folder.present())
    curves = [[Accuracy(0.111, 0.1, 0.12)] * len(prefix) for prefix in served]
    wins = {name: round(1000 * one.accuracy) for name, one in strategies.items()}
    only = {one: {other: max(0, wins[one] - wins[other]) for other in wins} for one in wins}
    expected = [ExpectedAccuracy(count, ahead, 0.0, 0.5) for count in range(1, 11)]
    found = Evaluation(folder.ledger.head(), 1000, curves, strategies, None, "test-0", only, "all", expected)
    (folder.path / "evaluation.json").write_text(found.to_text())


def test_one_figure_for_one_thing(folder: RunFolder) -> None:
    delete(folder, 2)
    strategies = {"all": Accuracy(0.48, 0.45, 0.51), "long": Accuracy(0.635, 0.61, 0.66)}
    evaluated(folder, strategies, 0.447)
    page = Page(write_report(folder))
    said = page.said
    assert "48.0% accuracy of what is served (AllSeq), 95 % interval 45.0 to 51.0" in said
    assert "AllSeq all live sequences 48.0% 45.0% to 51.0% served" in said
    assert "LongSeq the longest 63.5% 61.0% to 66.0%" in said
    assert "LongSeq would be right on 63.5% of the test records (AllSeq: 48.0%)" in said
    assert "expected accuracy, if anything is live" in said
    assert "Expected accuracies are those of AllSeq;" in said
    assert "are counted in the chance to serve" in said
    assert said.count("44.7%") == 10, "in the table only, once for each number of requests"


def test_advice_has_the_colour_of_its_urgency(folder: RunFolder) -> None:
    def look() -> list[str]:
        return [name for name in Page(write_report(folder)).classes if name.startswith("advice")]

    assert look() == ["advice none"]
    delete(folder, 2)
    assert look() == ["advice soon"]
    strategies = {"all": Accuracy(0.48, 0.45, 0.51), "long": Accuracy(0.635, 0.61, 0.66)}
    evaluated(folder, strategies, 0.447)
    assert look() == ["advice now", "advice soon"]


def test_merged_is_named_where_another_strategy_stands_in(tmp_path: Path) -> None:
    made = describe([(0, 1, 2), (2, 0, 1), (1, 2, 0)], [10, 20, 30])
    folder = paper_run(tmp_path / "run", made, "serving.strategy=merged")
    fill(folder)
    evaluated(folder, {"all": Accuracy(0.9, 0.88, 0.92)}, 0.8)
    said = Page(write_report(folder)).said
    assert "accuracy of what is served" not in said
    assert "merged, which is served, is not measured yet" in said
    assert "those of AllSeq, since merged was not looked at ahead" in said


def test_merged_stands_among_trained_heads(folder: RunFolder) -> None:
    cells = {"all": Accuracy(0.9, 0.88, 0.92), "merged": Accuracy(0.7, 0.6, 0.8)}
    measured = Evaluation(
        folder.ledger.head(),
        400,
        [[cells["all"]] * len(prefix) for prefix in folder.live().prefixes(folder.present())],
        cells,
        floor=cells["merged"],
        trained={"all": Accuracy(0.8, 0.7, 0.9)},
    )
    (folder.path / "evaluation.json").write_text(measured.to_text())
    said = Page(write_report(folder)).said
    assert "merged, trained heads" in said
    assert said.index("AllSeq, trained heads") < said.index("merged, trained heads")


def test_a_long_history_is_cut(folder: RunFolder) -> None:
    body = {"parts": [], "groups": [0], "modules_died": 0}
    with folder.ledger.writing() as writer:
        for _ in range(150):
            writer.append(Kind.REQUEST, body)
    page = Page(write_report(folder))
    assert "50 earlier requests are not listed." in page.said


# --- communication


def carried(*clients: str) -> Traffic:
    """Three rounds in which each client had three messages for seven updates."""
    return Traffic(3, {name: ClientTraffic(3, 7, 2_500_000, 1_250_000) for name in clients})


def test_without_flower_nothing_was_carried(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert "What Flower carried" not in Page(write_report(folder)).words
    show(folder.path)
    assert "traffic" not in capsys.readouterr().out


def test_rounds_and_bytes_stand_beside_the_papers_formula(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    add_traffic(folder, carried("client-0", "client-1"))
    add_traffic(folder, Traffic(1, {"client-1": ClientTraffic(1, 2, 0, 0)}))
    page = Page(write_report(folder))
    assert "4 rounds in all, where one module at a time takes 9 for one whole training" in page.said
    assert "3.5 messages on average, which asked it for 8.0 updates of modules" in page.said
    # Planned: a client joins its group's module and all after it, 6 of 9, and one module has 4 bytes.
    assert "planned 6.00 6 48 B 24 B" in page.said
    assert "the paper's formula, slices independent 7.33" in page.said  # 3 * 4 * (1/3 * 1/2 + 2/3 * 2/3)
    # N = L = B = 3, S = 2: both slices in one of the groups of two with chance 1/5, else in two groups.
    assert "the formula for groups of equal size 7.60" in page.said  # 3 * 4 * (1/5 * 1/2 + 4/5 * 2/3)
    assert "measured, all trainings so far 8.00 7 to 9 2.5 MB 1.25 MB" in page.said
    assert "client-0 3 7 2.50 1.25 client-1 4 9 2.50 1.25 mean 3.5 8.0 2.50 1.25" in page.said
    show(folder.path)
    told = " ".join(capsys.readouterr().out.split())
    assert "4 rounds; a client on average got 3.5 messages for 8.0 updates (7.60 by the" in told
    show(folder.path, as_json=True)
    traffic = json.loads(capsys.readouterr().out)["traffic"]
    assert traffic["clients"]["client-1"] == {"messages": 4, "modules": 9, "down": 2500000, "up": 1250000}
    assert (traffic["rounds"], round(traffic["paper_rounds"], 2)) == (4, 7.6)


def test_many_clients_and_odd_names_and_plans_do_no_harm(tmp_path: Path) -> None:
    folder = paper_run(tmp_path / "run", describe([(0, 1, 2), (0, 2)], [5] * 3))
    fill(folder)
    add_traffic(folder, carried("<i>&", *(f"client-{number}" for number in range(59))))
    page = Page(write_report(folder))
    assert "does not cover this plan" in page.said
    assert "10 more clients are not listed." in page.said
    assert "<i>& 3 7 2.50 1.25 client-0 3 7" in page.said
    assert "i" not in page.tags
