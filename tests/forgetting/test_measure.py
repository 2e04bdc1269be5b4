"""`fedsgt forgetting`: what is attacked, with what, and that it leaves nothing behind."""

from __future__ import annotations

import json
import signal
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from click.testing import Result
from tiny_deletions import bytes_of, copied, trained_run
from tiny_world import CLIENTS, LABELS, Quiet, Row, World, pgm, save_models, trained, write_rows
from typer.testing import CliRunner

from fedsgt.build.build import Build
from fedsgt.build.train import train
from fedsgt.cli.commands import forgetting as command
from fedsgt.errors import InputError
from fedsgt.forgetting import shadow_models as laboratory
from fedsgt.forgetting.measure import LIRA, LOSS, Attack, Case, Forgetting, measure
from fedsgt.forgetting.membership import Interval, confidences, loss_scores
from fedsgt.forgetting.shadow_models import Before, Shadows
from fedsgt.forgetting.targets import Attacked, find_attacked
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.serving.predictor import Predictor
from fedsgt.unlearning.request import Deletion
from fedsgt.unlearning.unlearn import unlearn

QUICK: dict[str, Any] = {"shadows": 4, "shadow_rounds": 1, "strategy": "long"}


def noise(count: int, seed: int, name: str) -> tuple[Row, ...]:
    """Nothing to learn but the records themselves."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(LABELS, size=count)
    return tuple(
        Row(
            f"{name}{number:03d}",
            f"c{number % CLIENTS}",
            int(label),
            pgm(rng.integers(0, 256, 64, dtype=np.uint8)),
        )
        for number, label in enumerate(labels)
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("forgetting")
    save_models(folder)
    write_rows(folder / "unseen", noise(90, 1020, "u"), "image")
    return World(folder, "image", noise(12 * CLIENTS, 20, "r"))


def config_of(world: World, *more: str) -> list[str]:
    return [f"data.test={world.folder / 'unseen' / 'train.parquet'}", *more]


@pytest.fixture(scope="module")
def source(world: World) -> Path:
    return trained_run(world, world.folder / "run", config_of(world))


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> RunFolder:
    return copied(source, tmp_path / "run")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, to see what is left of them."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def group_deleted(folder: RunFolder, group: int) -> None:
    """All that is in one group, in one request."""
    description = folder.description
    slices = [
        tuple(index for index, of in enumerate(groups) if of == group) for groups in description.groups_of
    ]
    names = [client.name for client in description.clients]
    unlearn(folder, [Deletion(name, slices=held) for name, held in zip(names, slices, strict=True) if held])


def attacked_of(folder: RunFolder, given: Path | None = None, limit: int | None = None) -> Attacked:
    return find_attacked(folder, folder.live(), given, limit, seed=0)


def facts(found: Forgetting) -> dict[str, Any]:
    return found.to_json() | {"seconds": None, "position": None}


def test_what_was_memorised_is_recognised_before_and_not_after(world: World, tmp_path: Path) -> None:
    """Random labels, learnt by heart.

    Before is clear whatever the data. After, an interval misses 0.5 by chance for one draw of the data in
    twenty: the world's seed is one for which it does not.
    """
    settings = ("training.epochs=10", "training.rounds=3", "peft.rank=16")
    faster = ("training.learning_rate=0.03", "training.batch_size=16", "plan.budget=2")
    trained(tmp_path / "run", world.config(*config_of(world, *settings, *faster)))
    folder = open_run(tmp_path / "run")
    group_deleted(folder, 0)
    before, shares = bytes_of(folder.path), list[float]()
    found = measure(folder, shadows=4, progress=shares.append)
    assert (found.deleted, found.duplicates, found.as_it_was, found.shadow_rounds) == (19, 0, True, 6)
    for attack in found.attacks.values():
        assert attack.before.auc.value > 0.75
        assert attack.before.auc.low > 0.6
        assert attack.after is not None
        assert attack.after.auc.contains(0.5)
        assert attack.drop is not None
        assert attack.drop.low > 0.1
    assert len(found.attacks[LIRA].before.scores[1]) == 19
    assert len(found.attacks[LOSS].before.scores[1]) == 2 * 19, "all that the labels allow"
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert bytes_of(folder.path) == before


@pytest.mark.parametrize("strategy", ["all", "long", "merged"])
def test_both_systems_are_the_ones_that_served_and_serve(
    source: Path, folder: RunFolder, strategy: str
) -> None:
    """Scores are those of the run before its deletion, asked there; and of the run as it is now."""
    unlearn(folder, [Deletion("c0", slices=(0,))])
    found = measure(folder, **(QUICK | {"strategy": strategy}))
    table = attacked_of(folder).table
    for path, case in ((source, found.attacks[LOSS].before), (folder.path, found.attacks[LOSS].after)):
        answer = Predictor(path, strategy).predict(table.contents)
        assert case is not None
        assert np.concatenate(case.scores) == pytest.approx(
            loss_scores(confidences(answer.probabilities, table.labels)), abs=1e-9
        )
    assert (found.strategy, found.as_it_was) == (strategy, True)


def test_surviving_modules_are_not_trained_again(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotations 012, 201, 120 without group 0: of the nine modules three are there."""
    group_deleted(folder, 0)
    built: list[tuple[int, ...]] = []

    class Noted(Build):
        def run(self, targets: Sequence[Any], priority: Any = None) -> list[str]:
            built.extend(target.groups for target in targets)
            return super().run(targets, priority)

    monkeypatch.setattr(laboratory, "Build", Noted)
    measure(folder, **(QUICK | {"strategy": "all"}))
    shadows = [(number,) for number in range(4)]
    assert built[-4:] == shadows
    assert sorted(built[:-4]) == [(0,), (0, 1), (0, 1, 2), (1, 2, 0), (2, 0), (2, 0, 1)]


def test_shadow_models_learn_retained_records_and_half_of_the_attacked(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,)), Deletion("c2")])
    attacked = attacked_of(folder, limit=5)
    before = Before.of(folder, folder.description, attacked, "long")
    shadows = Shadows.of(before, attacked, 6, 2, seed=1)
    retained = {content for t in attacked.left.tables.values() for content in t.contents}
    assert len(retained) == sum(len(client.records) for client in attacked.left.clients)
    assert attacked.count == 5
    setup_slices = {client.name: client.slices for client in attacked.whole.clients}
    for number, target in enumerate(shadows.targets):
        learnt = [
            content
            for name, chosen in target.slices.items()
            for index in chosen
            for content in shadows.slices[name][index - setup_slices[name]].contents
        ]
        half = {attacked.table.contents[row] for row in np.flatnonzero(shadows.inside[number])}
        assert len(learnt) == len(set(learnt))
        assert set(learnt) == retained | half
        assert target.parents == ()
    assert shadows.records == 6 * len(retained) + 6 * 5
    assert len({target.key for target in shadows.targets}) == 6


def test_every_shadow_model_of_every_seed_is_another(folder: RunFolder) -> None:
    """Also where two learn the same half, as they must of so few records."""
    unlearn(folder, [Deletion("c0", slices=(0,))])
    attacked = attacked_of(folder, limit=1)
    before = Before.of(folder, folder.description, attacked, "long")
    drawn = [Shadows.of(before, attacked, 4, 1, seed) for seed in range(8)]
    assert len({target.key for shadows in drawn for target in shadows.targets}) == 4 * 8


def test_deleted_and_unseen_records_are_matched(world: World, folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,)), Deletion("c2")])
    attacked = attacked_of(folder)
    rows = {row.content: row for row in world.rows}
    unseen = {row.content for row in noise(90, 1020, "u")}
    deleted, others = attacked.table.contents[: attacked.count], attacked.table.contents[attacked.count :]
    assert len(deleted) == attacked.deleted == len(set(deleted))
    owners = [rows[content[0]].client for content in deleted]
    assert set(owners) == {"c0", "c2"}
    times = len(others) // len(deleted)
    assert list(attacked.table.owners or ()) == owners * (times + 1)
    assert attacked.table.labels == attacked.table.labels[: attacked.count] * (times + 1)
    assert {content[0] for content in others} <= unseen


def test_the_same_seed_gives_the_same_numbers(folder: RunFolder) -> None:
    unlearn(folder, [Deletion("c1", slices=(1,))])
    first, again, other = (measure(folder, **QUICK, seed=seed) for seed in (1, 1, 2))
    assert facts(first) == facts(again)
    assert not np.array_equal(first.attacks[LIRA].before.scores[0], other.attacks[LIRA].before.scores[0])


def test_a_source_without_the_deleted_records_needs_a_file(
    world: World, folder: RunFolder, tmp_path: Path
) -> None:
    """A copy of the whole source does; what it has besides deleted records, or twice, is not used."""
    own = write_rows(tmp_path / "own", world.rows, "image")
    stranger = replace(noise(1, 5, "s")[0], client="c1")
    copy = write_rows(tmp_path / "copy", (*world.rows, stranger), "image") / "train.parquet"
    config = world.config(*config_of(world, f"data.source={own}", "data.erase=rewrite"))
    rewritten = train(config, tmp_path / "rewritten", Quiet())
    for run in (folder, rewritten):
        unlearn(run, [Deletion("c3", slices=(0,)), Deletion("c1", records=("r001", "r005"))])
    assert len(pq.read_table(own / "train.parquet")) < len(world.rows)
    with pytest.raises(InputError, match=r"not in its source any more.*--deleted"):
        measure(rewritten, **QUICK)
    found = facts(measure(folder, **QUICK))
    assert facts(measure(rewritten, deleted=copy, **QUICK)) == found
    assert facts(measure(folder, deleted=copy, **QUICK)) == found
    with pytest.raises(InputError, match="no record that was deleted"):
        measure(rewritten, deleted=own / "train.parquet", **QUICK)
    with pytest.raises(InputError, match="cannot be read"):
        measure(rewritten, deleted=tmp_path / "none.parquet", **QUICK)


def test_part_of_the_deleted_records_is_not_the_system_that_was(world: World, tmp_path: Path) -> None:
    own = write_rows(tmp_path / "own", world.rows, "image")
    config = world.config(*config_of(world, f"data.source={own}", "data.erase=rewrite"))
    folder = train(config, tmp_path / "run", Quiet())
    copy = pq.read_table(own / "train.parquet")
    unlearn(folder, [Deletion("c1", records=("r001", "r005", "r009"))])
    pq.write_table(
        copy.filter(pa.compute.is_in(copy["id"], pa.array(["r001", "r005"]))), tmp_path / "p.parquet"
    )
    found = measure(folder, deleted=tmp_path / "p.parquet", **QUICK)
    assert (found.deleted, found.as_it_was) == (2, False)


def test_nothing_was_deleted(folder: RunFolder) -> None:
    with pytest.raises(InputError, match="no record was deleted yet"):
        measure(folder, **QUICK)


def test_exhausted_there_is_nothing_to_ask_afterwards(folder: RunFolder) -> None:
    for group in range(3):
        held = [
            (client.name, index)
            for client, groups in zip(folder.description.clients, folder.description.groups_of, strict=True)
            for index, of in enumerate(groups)
            if of == group
        ]
        unlearn(folder, [Deletion(held[0][0], slices=(held[0][1],))])
    found = measure(folder, **QUICK)
    assert found.not_served is not None
    assert all(attack.after is None and attack.drop is None for attack in found.attacks.values())
    assert found.as_it_was
    shown = command._table(found)
    assert "after: no module is live, so there is nothing to ask" in shown
    assert "LiRA, before" in shown
    assert "LiRA, after" not in shown
    serving = folder.config.serving.model_copy(update={"bare_backbone": True})
    bare = folder.config.model_copy(update={"serving": serving})
    again = measure(RunFolder(folder.path, bare, folder.description), **QUICK)
    assert "bare backbone" in str(again.not_served)


def test_a_group_that_left_the_plan_was_there_before(folder: RunFolder) -> None:
    """Nobody holds anything of group 2 any more, and the run was trained again without it."""
    whole = sum(sum(client.records) for client in folder.description.clients)
    group_deleted(folder, 2)
    again = train(folder.config, folder.path, Quiet())
    assert all(2 not in order for order in again.description.sequences)
    gone = whole - sum(sum(client.records) for client in again.description.clients)
    attacked = attacked_of(again)
    before = Before.of(again, again.live().description, attacked, "all")
    assert [prefix for _, prefix, _ in before.chosen] == [(0, 1, 2), (1, 0, 2)]
    found = measure(again, **QUICK)
    assert found.deleted == gone
    assert all(attack.after is not None for attack in found.attacks.values())


def test_a_copy_that_is_retained_is_not_attacked(world: World, tmp_path: Path) -> None:
    """Nor is a test record that a client holds, or held, unseen."""
    twin = replace(world.rows[0], id="twin", client="c1")
    other = replace(world, rows=(*world.rows, twin))
    write_rows(tmp_path / "test", (*noise(30, 1020, "u"), *world.rows[:20]), "image")
    config = other.config(f"data.test={tmp_path / 'test' / 'train.parquet'}")
    folder = train(config, tmp_path / "run", Quiet())
    unlearn(folder, [Deletion("c0")])
    attacked = attacked_of(folder)
    assert (attacked.deleted, attacked.duplicates) == (12, 1)
    contents = [content[0] for content in attacked.table.contents]
    assert world.rows[0].content not in contents
    held = {row.content for row in world.rows}
    assert held.isdisjoint(contents[attacked.count :])


def test_no_unseen_record_of_such_a_label(images: World, tmp_path: Path) -> None:
    """All test records of this world are held by clients."""
    folder = train(images.config("grouping.groups=2"), tmp_path / "run", Quiet())
    unlearn(folder, [Deletion("c0", slices=(0,))])
    with pytest.raises(InputError, match="no test record that clients never held"):
        measure(folder, **QUICK)


def test_the_folder_is_private_and_gone_whatever_happens(folder: RunFolder, temporary: Path) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,))])
    before = bytes_of(folder.path)
    seen: list[tuple[int, int]] = []

    def look(share: float) -> None:
        (made,) = temporary.iterdir()
        seen.append((stat.S_IMODE(made.stat().st_mode), len(list(made.rglob("*.safetensors")))))

    measure(folder, **QUICK, progress=look)
    assert {mode for mode, _ in seen} == {0o700}
    assert seen[-1][1] > 3

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(folder, **QUICK, progress=stop)
    assert list(temporary.iterdir()) == []
    assert bytes_of(folder.path) == before


def test_a_deletion_that_comes_meanwhile_stops_it(folder: RunFolder, temporary: Path) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,))])
    shares: list[float] = []

    def one_more(share: float) -> None:
        shares.append(share)
        unlearn(open_run(folder.path), [Deletion("c1", slices=(0,))])

    with pytest.raises(InputError, match="a deletion came in meanwhile; start again"):
        measure(folder, **QUICK, progress=one_more)
    assert len(shares) == 1
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("shadows", [0, 2, 5])
def test_numbers_of_shadows_that_are_not_allowed(folder: RunFolder, shadows: int) -> None:
    with pytest.raises(InputError, match="even number of at least 4"):
        measure(folder, shadows=shadows)


def called(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(command.forgetting)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command(folder: RunFolder, tmp_path: Path, temporary: Path) -> None:
    unlearn(folder, [Deletion("c0", slices=(0,))])
    options = ("--shadows", 4, "--shadow-rounds", 1, "--strategy", "long", "--limit", 4, "--seed", 3)
    plot = tmp_path / "roc.svg"
    done = called(folder.path, *options, "--json", "--plot", plot)
    assert done.exit_code == 0, done.output
    assert "AN EXPERIMENT FOR SIMULATIONS: this trains on 5 deleted records again" in done.stderr
    assert "Attacking: 100%" in done.stderr
    assert plot.read_text(encoding="utf-8").count("LiRA") == 2
    shown = json.loads(done.stdout)
    by_hand = measure(folder, **QUICK, limit=4, seed=3)
    assert shown | {"seconds": None, "position": None} == facts(by_hand) | {"run": str(folder.path)}
    assert shown["attacks"][LIRA]["deleted"] == 4
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ended_from_outside_it_ends_in_order(number: signal.Signals) -> None:
    """Temporary folders go when a context ends, which the default handlers would not wait for."""
    before = signal.getsignal(number)
    with pytest.raises(SystemExit, match=str(128 + number)), command._cleaned_up():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


def test_wrong_input_to_the_command(folder: RunFolder) -> None:
    assert called(folder.path, "--shadows", 3).exit_code == 2
    assert isinstance(called(folder.path, "--plot", "x.txt").exception, InputError)
    failed = called(folder.path)
    assert isinstance(failed.exception, InputError)
    assert failed.stderr == "", "no warning of what is not done"


def interval(value: float, low: float, high: float, method: str = "DeLong") -> Interval:
    return Interval(value, low, high, method)


VERDICTS = [
    (interval(0.7, 0.6, 0.8), interval(0.5, 0.4, 0.6), "before: the attack recognises records"),
    (interval(0.7, 0.6, 0.8), interval(0.5, 0.4, 0.6), "after: the interval contains 0.5: no better"),
    (interval(0.5, 0.4, 0.6), interval(0.5, 0.4, 0.6), "before: the interval contains 0.5: it recognises"),
    (interval(0.3, 0.2, 0.4), interval(0.3, 0.2, 0.4), "before: below 0.5"),
    (interval(0.3, 0.2, 0.4), interval(0.3, 0.2, 0.4), "after: the interval is below 0.5: chance"),
    (interval(0.7, 0.6, 0.8), interval(0.7, 0.6, 0.8), "after: the interval is above 0.5: chance"),
    (interval(1.0, 0.8, 1.0, "exact"), interval(0.5, 0.4, 0.6), "1.000  0.800 to 1.000 (exact)"),
]


@pytest.mark.parametrize(("before", "after", "text"), VERDICTS)
def test_verdicts(before: Interval, after: Interval, text: str) -> None:
    scores = np.arange(3.0), np.arange(2.0)
    cases = [Case(auc, {"1%": None, "5%": 0.25}, scores) for auc in (before, after)]
    found = Forgetting(5, "all", 0, 3, 1, False, 16, 4, None, {LIRA: Attack(*cases)}, 1.2)
    shown = command._table(found)
    assert text in shown
    assert "25% at 5%" in shown
    assert "1 deleted record not attacked" in shown
    assert "not the very modules of then" in shown
    assert "fedsgt verify does" in shown
