"""Exit codes and words of a deletion that cannot be completed: everybody learns whether it is in force."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command import fedsgt, shown

from fedsgt.certificates.keys import PublicKey, SigningKey
from fedsgt.runs import destruction
from fedsgt.runs.folder import open_run
from fedsgt.unlearning.unlearn import OutcomeUnknown

REFUSED = "nothing was changed, the deletion is not in force"
SLICE = ("--client", "client-1", "--slice", "0")


@pytest.mark.parametrize("text", [None, "nonsense"])
def test_a_key_that_cannot_be_used_refuses_the_request(run: str, text: str | None) -> None:
    key = Path(run) / "signing.key"
    SigningKey.make(key)
    if text is None:
        key.chmod(0o644)
    else:
        key.write_text(text)
    done = fedsgt("unlearn", run, *SLICE)
    assert done.returncode == 2
    assert "signing.key" in done.stderr
    assert done.stderr.endswith(f"; {REFUSED}\n")
    assert open_run(Path(run)).live().requests == ()
    key.unlink()
    assert fedsgt("unlearn", run, *SLICE).returncode == 0


@pytest.mark.parametrize(
    ("key", "said"), [((), REFUSED), (("--key", "a"), "nothing was changed by this attempt")]
)
def test_any_error_before_acceptance_says_so(
    run: str, key: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fedsgt.unlearning.unlearn.content_hash", fail)
    done = fedsgt("unlearn", run, *SLICE, *key)
    assert (done.returncode, done.stderr) == (2, f"fedsgt: Input/output error; {said}\n")
    assert open_run(Path(run)).live().requests == ()


def test_an_outcome_that_is_not_known_has_an_exit_code_of_its_own(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OutcomeUnknown("it is not known")

    monkeypatch.setattr("fedsgt.unlearning.unlearn.accept", fail)
    done = fedsgt("unlearn", run, *SLICE)
    assert (done.returncode, done.stderr) == (4, "fedsgt: it is not known\n")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the disk have no room for certificates."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fedsgt.certificates.signatures.write_once", refuse)
    return monkeypatch


def test_a_pending_certificate_is_said_first_and_ends_with_3(run: str, full: pytest.MonkeyPatch) -> None:
    arguments = ("unlearn", run, *SLICE, "--key", "a")
    done = fedsgt(*arguments)
    assert done.returncode == 3
    first = "the deletion is in force; its certificate is pending because No space left on device\n"
    assert done.stdout.startswith(first)
    told = fedsgt(*arguments, "--json")
    assert told.returncode == 3
    answer = json.loads(told.stdout)
    assert answer["in_force"] is True
    assert answer["pending"] == "its certificate is pending because No space left on device"
    assert answer["certificate"] is None
    assert f"request no. {answer['position']} is in force; its certificate is pending" in told.stderr
    status = json.loads(shown("status", run, "--json"))
    assert status["pending"] == [{"position": answer["position"], "what": "certificate", "reason": ""}]
    assert "PENDING: request no. " in shown("status", run)
    other = fedsgt("unlearn", run, "--client", "client-2", "--slice", "0", "--json")
    assert json.loads(other.stdout)["position"] > answer["position"], "others go on"
    full.undo()
    again = fedsgt(*arguments, "--json")
    assert (again.returncode, json.loads(again.stdout)["pending"]) == (0, None)
    assert json.loads(again.stdout)["repeated"] is True
    assert Path(json.loads(again.stdout)["certificate"]).is_file()
    assert json.loads(shown("status", run, "--json"))["pending"] == []
    assert "none depends on deleted data" in shown("audit", run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_after_acceptance(run: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(destruction, "claimed_files", stop)
        done = fedsgt("unlearn", run, *SLICE, "--key", "a")
    assert done.returncode == 3
    assert done.stdout.startswith(
        "the deletion is in force; its destruction is pending because it was stopped;"
    )
    assert fedsgt("unlearn", run, *SLICE, "--key", "a").returncode == 0


def test_a_signal_before_acceptance(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(destruction, "local_links", stop)
        done = fedsgt("unlearn", run, *SLICE)
    assert done.returncode == 128 + signal.SIGTERM
    assert REFUSED in done.stderr
    assert open_run(Path(run)).live().requests == ()


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt(), SystemExit(143)]
)
def test_a_retraining_that_fails_afterwards(
    run: str, failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Path(run) / "run.toml"
    config.write_text(config.read_text().replace('retrain = "never"', 'retrain = "now"'))

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("fedsgt.api.run.train_run", fail)
    done = fedsgt("unlearn", run, *SLICE)
    assert done.returncode == 3
    assert "certificate " in done.stdout
    assert "the deletion is in force (request no. " in done.stderr


def test_a_lost_key_is_said_and_explained(run: str, tmp_path: Path) -> None:
    first = json.loads(shown("unlearn", run, *SLICE, "--json"))
    old = Path(run) / "signing.pub"
    (tmp_path / "kept.pub").write_bytes(old.read_bytes())
    (Path(run) / "signing.key").unlink()
    done = fedsgt("unlearn", run, "--client", "client-2", "--slice", "0", "--json")
    assert done.returncode == 0
    second = json.loads(done.stdout)
    assert (first["key_changes"], len(second["key_changes"])) == ([], 1)
    assert f"fedsgt: {second['key_changes'][0]}\n" in done.stderr
    other = fedsgt("certificate", "verify", second["certificate"], "--key", str(tmp_path / "kept.pub"))
    assert other.returncode == 1
    assert "says that the run changed its key" in other.stderr
    name = f"signing-{PublicKey.read(old).id[:16]}.pub"
    assert f"ask its signer for the public key, {name}" in other.stderr
    good = fedsgt("certificate", "verify", second["certificate"], "--key", str(Path(run) / name))
    assert good.returncode == 0
    assert "KEY CHANGED" in good.stdout
    earlier = shown("certificate", "verify", first["certificate"], "--key", str(tmp_path / "kept.pub"))
    assert "KEY CHANGED" not in earlier
    assert "none depends on deleted data" in shown("audit", run)


@pytest.mark.parametrize("errors_too", [False, True])
def test_the_exit_code_says_it_where_nobody_reads(run: str, errors_too: bool) -> None:
    """As with `fedsgt unlearn ... | head -0`."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "fedsgt", "unlearn", run, *SLICE],
        stdout=write,
        stderr=write if errors_too else subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.returncode == 3
    assert errors_too or "the deletion is in force (request no. " in done.stderr
    assert len(open_run(Path(run)).live().requests) == 1
