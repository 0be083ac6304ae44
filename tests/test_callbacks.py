"""How runs end, and checkpoints, from which they go on to the same bits: a damaged file, a full disk, signals."""

import inspect
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import run_in_subprocess
from cases import METHODS, noisy_regression
from checkpoints import checksum, rounds_in

import fgmp
from fgmp import callbacks
from fgmp.faults import Corrupted
from fgmp.rounds import Method
from fgmp.shared_support.newton import SupportSolver

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

FED = noisy_regression(n_features=40)
SPARSE = fgmp.FedGradMP(3, batch_size=10)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.fgmp"


def run_to(path, rounds, method=SPARSE, fed=FED, **options):
    return fgmp.simulate(
        method,
        fed,
        rounds,
        **{"cohort_size": 4, "rng": 0, "callbacks": fgmp.Checkpoint(path)} | options,
    )


def test_every_method_is_here():
    """A method that comes later has to be resumed here too."""
    public = {thing for name in fgmp.__all__ if inspect.isclass(thing := getattr(fgmp, name))}
    methods = {
        thing
        for thing in public
        if issubclass(thing, Method)
        and not issubclass(thing, SupportSolver)
        and thing is not Method
    }
    assert methods == {type(make()) for make in METHODS.values()}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("recorded", "every"), [(1, 1), (2, None)])
def test_a_run_goes_on_to_the_same_checksum(name, recorded, every, path):
    """In several parts, each of which opens the file anew; nothing is done twice."""
    history = fgmp.History(every=recorded, metrics={"size": np.linalg.norm})
    seen = []
    whole = fgmp.simulate(METHODS[name](), FED, 5, 4, 7, history=history)
    for before, rounds in [(0, 1), (1, 3), (3, 5)]:
        seen.clear()
        callbacks = [fgmp.Checkpoint(path, every), lambda run: seen.append(run.step.round)]
        part = fgmp.simulate(
            METHODS[name](), FED, rounds, 4, 7, history=history, callbacks=callbacks
        )
        assert seen == list(range(before, rounds + 1))
    assert checksum(part) == checksum(whole)
    assert checksum(fgmp.simulate(METHODS[name](), FED, 4, 4, 7)) != checksum(whole)


TURNED = fgmp.Dictionary(np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0])
OTHERS = {
    "method.sparsity is 4, not 3": {"method": fgmp.FedGradMP(4, batch_size=10)},
    "method.dictionary is Dictionary .*, not StandardBasis": {
        "method": fgmp.FedGradMP(3, 3, 10, TURNED)
    },
    "seed is 1, not 0": {"rng": 1},
    "cohort_size is 5, not 4": {"cohort_size": 5},
    "every is 2, not 1": {"history": fgmp.History(every=2)},
    "metrics.0 is 'size', not absent": {"history": fgmp.History(metrics={"size": np.linalg.norm})},
    "aggregator is Median, not Mean": {"aggregator": fgmp.Median()},
    "faults.0.probability is 0.1, not absent": {
        "fed": fgmp.Faulty(FED, fgmp.DropOut(probability=0.1))
    },
    "weights is .*, not ": {
        "fed": fgmp.Federation.from_clients(FED.clients, np.arange(1.0, 7), truth=FED.truth)
    },
    "client_ids is .*, not ": {"fed": FED.subset(np.arange(5))},
    "data.* is .*, not ": {
        "fed": fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.02, rng=0)
    },
}


@pytest.mark.parametrize("message", OTHERS)
def test_another_run_is_refused_and_what_differs_is_named(message, path):
    run_to(path, 2)
    with pytest.raises(ValueError, match=f"is of another run: .*{message}"):
        run_to(path, 4, **OTHERS[message])
    assert checksum(run_to(path, 4)) == checksum(fgmp.simulate(SPARSE, FED, 4, 4, 0))


def test_the_same_run_in_other_objects_is_the_same_and_no_seed_is_that_of_the_file(path):
    for rounds in (2, 3):
        method = fgmp.FedGradMP(3, dictionary=fgmp.gaussian_dictionary(40, 60, rng=0))
        fed = noisy_regression(n_features=40)
        resumed = run_to(path, rounds, method, fed, rng=None)
    assert checksum(resumed) == checksum(fgmp.simulate(method, fed, 3, 4, resumed.seed))


def test_fewer_rounds_or_no_folder_are_errors_and_nothing_is_lost(path):
    run_to(path, 4)
    with pytest.raises(
        ValueError, match="rounds is 3; expected at least 4, which checkpoint .* has"
    ):
        run_to(path, 3)
    assert rounds_in(path) == 4
    with pytest.raises(FileNotFoundError, match="checkpoint cannot be written .*nowhere"):
        run_to(path.parent / "nowhere" / "run.fgmp", 2)


def test_what_was_written_of_a_round_is_whole_when_a_watcher_raises(path):
    def broken(run):
        if run.step.round == 3:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_to(path, 9, callbacks=[fgmp.Checkpoint(path, every=100), broken])
    assert rounds_in(path) == 3
    assert checksum(run_to(path, 9)) == checksum(fgmp.simulate(SPARSE, FED, 9, 4, 0))


def interrupting(place, raised=KeyboardInterrupt):
    """a method and a callback, of which one is interrupted after the first round."""

    class Interrupted(fgmp.FedGradMP):
        def client_update(self, client, x, rng):
            if place == "at a client" and len(x.support) and client.client_id == 3:
                raise raised
            return super().client_update(client, x, rng)

    def stop(run):
        if place == "in a callback" and run.step.round == 1:
            raise raised

    return Interrupted(3), stop


@pytest.mark.parametrize("place", ["at a client", "in a callback"])
def test_ctrl_c_reaches_the_caller_with_what_there_is(place, path):
    method, stop = interrupting(place)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_to(path, 9, method, callbacks=[fgmp.Checkpoint(path), stop], cohort_size=None)
    result = caught.value.result
    assert result.interrupted
    assert result.history["round"].tolist() == [0, 1]
    assert rounds_in(path) == 1
    assert "ended after 1 of 9 rounds" in caught.value.__notes__[0]
    np.testing.assert_allclose(
        result.x, fgmp.simulate(fgmp.FedGradMP(3), FED, 1, rng=0).x, atol=1e-12
    )


def test_one_ctrl_c_ends_the_callers_loop():
    method, _ = interrupting("at a client")
    begun = []
    with pytest.raises(KeyboardInterrupt):
        for seed in range(3):
            begun.append(seed)
            fgmp.simulate(method, FED, 9, rng=seed)
    assert begun == [0]


@pytest.mark.parametrize("what", ["tune", "polish", "fit"])
def test_ctrl_c_in_what_is_more_than_a_run_leaves_no_result(what, monkeypatch):
    """What one of its runs has found so far is no answer to the question."""
    method, _ = interrupting("at a client")
    result = fgmp.simulate(SPARSE, FED, 1, rng=0)
    X = np.random.default_rng(0).standard_normal((60, 4))
    groups = np.repeat([0, 1], 30)

    def interrupted(self, client, *given):
        raise KeyboardInterrupt

    monkeypatch.setattr("fgmp.shared_support.newton.NewtonOnSupport.client_update", interrupted)
    start = {
        "tune": lambda: fgmp.tune(lambda once: method, {"once": [1]}, FED, 3),
        "polish": lambda: fgmp.polish(result, FED),
        "fit": lambda: fgmp.FedGradMPRegressor(2).fit(X, X[:, 0], groups),
    }
    with pytest.raises(KeyboardInterrupt) as caught:
        start[what]()
    assert not hasattr(caught.value, "result")
    assert not getattr(caught.value, "__notes__", [])


def test_a_checkpoint_that_fails_while_an_error_is_on_its_way_is_noted_on_it(path):
    class Broken(fgmp.Checkpoint):
        def write(self, run):
            raise OSError(28, "No space left on device")

    def callback(run):
        raise RuntimeError("first")

    ended = []
    callback.end = ended.append
    with pytest.raises(RuntimeError, match="first") as caught:
        fgmp.simulate(SPARSE, FED, 3, 4, 0, callbacks=[callback, Broken(path), callback])
    assert caught.value.__notes__ == [
        "At the end of the run Broken failed too: OSError(28, 'No space left on device')"
    ]
    assert len(ended) == 2


def test_whoever_was_told_of_the_beginning_is_told_of_the_end():
    told = []

    class Named:
        def __init__(self, name, fails=""):
            self.name = name
            self.fails = fails

        def tell(self, what):
            told.append(f"{self.name} {what}")
            if self.fails == what:
                raise ValueError(f"{self.name} {what}")

        def begin(self, run):
            self.tell("begins")

        def __call__(self, run):
            pass

        def end(self, run):
            self.tell("ends")

    with pytest.raises(ValueError, match="two ends"):
        fgmp.simulate(
            SPARSE, FED, 1, callbacks=[Named("one"), Named("two", "ends"), Named("three")]
        )
    assert told == [
        f"{name} {what}" for what in ("begins", "ends") for name in ("one", "two", "three")
    ]
    told.clear()
    with pytest.raises(ValueError, match="two begins"):
        fgmp.simulate(
            SPARSE, FED, 1, callbacks=[Named("one"), Named("two", "begins"), Named("three")]
        )
    assert told == ["one begins", "two begins", "one ends", "two ends"]


def test_a_flipped_bit_is_noticed_before_anything_is_unpickled(path, monkeypatch):
    """One bit in every byte, head and pickle; a cut, and what was added."""
    run_to(path, 3)
    whole = path.read_bytes()
    monkeypatch.setattr("pickle.loads", lambda *_: pytest.fail("something was unpickled"))
    rng = np.random.default_rng(0)
    spoilt = [whole[:-1], whole + b"\0", whole[:80], b"", b"fgmp"]
    for place in range(len(whole)):
        one = bytearray(whole)
        one[place] ^= 1 << rng.integers(8)
        spoilt.append(bytes(one))
    for content in spoilt:
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match="run.fgmp' cannot be read .*; expected a file that this version wrote"
        ):
            callbacks._read(f"checkpoint {str(path)!r}", path)
    for content in spoilt[::500]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read"):
            run_to(path, 5)
        assert path.read_bytes() == content


def test_what_an_older_version_wrote_is_refused_as_such(path):
    path.write_bytes(pickle.dumps(({}, 0, b"", (None, [], None))))
    with pytest.raises(
        ValueError, match=r"run.fgmp' cannot be read \(is of another version of fgmp\)"
    ):
        run_to(path, 3)
    path.write_bytes(b"fgmp checkpoint 1 and so on")
    with pytest.raises(ValueError, match="is of another version"):
        run_to(path, 3)
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"cannot be read \(is none\)"):
        run_to(path, 3)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_checkpoint_is_its_owners_alone_from_the_start(path, monkeypatch):
    """Also where a file of a run that was killed lies beside it, which others may read."""
    beside = path.with_name("run.fgmp.partial")
    beside.write_text("left")
    beside.chmod(0o644)
    modes = []
    replace = os.replace
    monkeypatch.setattr(
        os, "replace", lambda old, new: modes.append(mode_of(Path(old))) or replace(old, new)
    )
    run_to(path, 2)
    assert set(modes) == {0o600}
    assert mode_of(path) == 0o600
    assert sorted(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("name", ["run.fgmp.partial", "run.fgmp.lock"])
def test_no_link_beside_a_checkpoint_is_followed(name, path):
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.with_name(name).symlink_to(victim)
    run_to(path, 2)
    assert victim.read_text() == "precious"
    assert rounds_in(path) == 2
    assert not path.is_symlink()


def test_a_path_that_is_a_link_stays_one(path):
    """The file that it points to is the checkpoint, and what is no checkpoint stays as it is."""
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    path.symlink_to(elsewhere / "kept.fgmp")
    run_to(path, 2)
    resumed = run_to(path, 4)
    assert path.is_symlink()
    assert rounds_in(elsewhere / "kept.fgmp") == 4
    assert checksum(resumed) == checksum(fgmp.simulate(SPARSE, FED, 4, 4, 0))
    (elsewhere / "kept.fgmp").write_text("precious")
    with pytest.raises(ValueError, match="cannot be read"):
        run_to(path, 5)
    assert (elsewhere / "kept.fgmp").read_text() == "precious"


def test_a_second_run_on_the_same_path_is_refused_and_the_first_goes_on(path):
    refused = []
    checkpoint = fgmp.Checkpoint(path, every=1)

    def second(run):
        if run.step.round == 2:
            for other in (fgmp.Checkpoint(path), checkpoint):
                with pytest.raises(
                    BlockingIOError, match=rf"under way \(process {os.getpid()}\).*run.fgmp"
                ) as caught:
                    run_to(path, 9, callbacks=other)
                refused.append(caught.value)

    result = run_to(path, 4, callbacks=[checkpoint, second])
    assert len(refused) == 2
    assert rounds_in(path) == 4
    assert (
        checksum(result)
        == checksum(fgmp.simulate(SPARSE, FED, 4, 4, 0))
        == checksum(run_to(path, 4))
    )
    assert not path.with_name("run.fgmp.lock").exists()


def test_data_are_hashed_once(path, monkeypatch):
    asked = []
    identity = callbacks.identity
    monkeypatch.setattr(callbacks, "identity", lambda run: asked.append(run) or identity(run))
    run_to(path, 6, callbacks=fgmp.Checkpoint(path, every=1))
    assert len(asked) == 1
    run_to(path, 8, callbacks=fgmp.Checkpoint(path, every=1))
    assert len(asked) == 2


class Plain(Method):
    """A method that is no dataclass, and keeps its atoms once they are asked for."""

    def __init__(self, size=3):
        self.inner = fgmp.FedGradMP(size)

    def start(self, shape):
        assert self.atoms is not None
        return self.inner.start(shape)

    def exchanges(self):
        return self.inner.exchanges()


def test_a_method_that_is_no_dataclass_goes_on(path):
    method = Plain()
    run_to(path, 2, method)
    resumed = run_to(path, 3, method)
    assert (
        checksum(resumed)
        == checksum(fgmp.simulate(Plain(), FED, 3, 4, 0))
        == checksum(run_to(path, 3, Plain()))
    )
    with pytest.raises(ValueError, match="method.inner.sparsity is 4, not 3"):
        run_to(path, 4, Plain(4))


def test_another_function_makes_another_run(path):
    """By what it does and what it holds, not by where it stands."""

    def times(factor):
        return lambda answer, client: replace(answer, values=factor * answer.values)

    def faulty(change):
        return fgmp.Faulty(FED, Corrupted(change, clients=[1]))

    run_to(path, 2, fed=faulty(times(2.0)))
    run_to(path, 3, fed=faulty(times(2.0)))
    others = [
        times(3.0),
        lambda answer, client: answer,
        lambda answer, client: None,
        partial(times(2.0)),
    ]
    for other in others:
        with pytest.raises(ValueError, match="is of another run: .*faults.0.change"):
            run_to(path, 4, fed=faulty(other))

    def itself(answer, client):
        return itself(answer, client) if client < 0 else answer

    assert callbacks._named("it", itself) == callbacks._named("it", itself)


def process(path, rounds, *more, every="1"):
    command = [sys.executable, run_in_subprocess.__file__, str(path), str(rounds), every, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_run_that_is_killed_goes_on(path):
    """SIGKILL after a few rounds, wherever it comes, three times; the file is always whole."""
    for _ in range(3):
        before = rounds_in(path) if path.exists() else -1
        started = process(path, 100_000)
        deadline = time.monotonic() + 60
        while not (path.exists() and rounds_in(path) > before + 2) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(started.pid, signal.SIGKILL)
        started.communicate()
        assert rounds_in(path) > before
    rounds = rounds_in(path) + 2
    resumed = run_to(
        path, rounds, run_in_subprocess.METHOD, run_in_subprocess.federation(), cohort_size=5
    )
    assert checksum(resumed) == checksum(
        fgmp.simulate(run_in_subprocess.METHOD, run_in_subprocess.federation(), rounds, 5, 0)
    )


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_run_that_is_terminated_writes_first(name, path):
    """With the default pauses of a minute between two checkpoints, of which none comes in time."""
    number = getattr(signal, name)
    default = signal.signal(
        number, signal.SIG_DFL
    )  # whoever runs the tests may ignore it, and a child would
    try:
        started = process(path, 100_000, every="None")
    finally:
        signal.signal(number, default)
    assert started.stdout.readline() == "started\n"
    assert started.stdout.readline() == "after 5\n"
    started.send_signal(number)
    started.communicate(timeout=120)
    assert started.returncode == 128 + number
    assert rounds_in(path) >= 5
    rounds = rounds_in(path) + 1
    resumed = run_to(
        path, rounds, run_in_subprocess.METHOD, run_in_subprocess.federation(), cohort_size=5
    )
    assert checksum(resumed) == checksum(
        fgmp.simulate(run_in_subprocess.METHOD, run_in_subprocess.federation(), rounds, 5, 0)
    )


def test_signals_are_left_as_they_were(path):
    seen = []
    number = signal.SIGTERM
    before = signal.signal(number, signal.SIG_DFL)
    try:
        run_to(
            path,
            1,
            callbacks=[fgmp.Checkpoint(path), lambda run: seen.append(signal.getsignal(number))],
        )
        assert callable(seen[0])
        assert signal.getsignal(number) == signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN)
        run_to(
            path,
            2,
            callbacks=[fgmp.Checkpoint(path), lambda run: seen.append(signal.getsignal(number))],
        )
        assert seen[-1] == signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("event", ["disk_full", "read_only"])
def test_a_checkpoint_that_cannot_be_written_is_said_once_and_the_run_goes_on(event, path):
    started = process(path, 12, event)
    out, err = started.communicate(timeout=120)
    assert out.splitlines() == ["started", "after 5", "finished 12"], err
    assert err.count("could not be written") == 1
    assert rounds_in(path) == 5
    path.parent.chmod(0o755)
