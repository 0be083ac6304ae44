"""Callbacks: how runs end, and checkpoints, from which they resume to the same bits."""

import inspect
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pytest
import run_in_subprocess
from cases import METHODS, PUBLIC_NAMES, noisy_regression
from checkpoints import checksum, rounds_in

import fgmp
from fgmp.method import Method
from fgmp.run import callbacks
from fgmp.run.faults import Corrupted
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


def test_every_public_method_is_among_the_cases():
    """A method that is added later has to be resumed too."""
    public = {thing for name in PUBLIC_NAMES if inspect.isclass(thing := getattr(fgmp, name))}
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
def test_run_resumed_in_parts_has_same_bits(name, recorded, every, path):
    """Each part reads the checkpoint, and no round is run twice."""
    history = fgmp.History(every=recorded, metrics={"size": np.linalg.norm})
    seen = []
    whole = fgmp.simulate(METHODS[name](), FED, 5, 4, 7, history=history)
    for before, rounds in [(0, 1), (1, 3), (3, 5)]:
        seen.clear()
        callbacks = [fgmp.Checkpoint(path, every), lambda run: seen.append(run.progress.round)]
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
def test_checkpoint_of_another_run_is_refused_by_what_differs(message, path):
    """The message names the option or the data that differ, and the checkpoint stays."""
    run_to(path, 2)
    with pytest.raises(ValueError, match=f"is of another run: .*{message}"):
        run_to(path, 4, **OTHERS[message])
    assert checksum(run_to(path, 4)) == checksum(fgmp.simulate(SPARSE, FED, 4, 4, 0))


def test_run_without_seed_resumes_with_seed_of_the_checkpoint(path):
    """Equal methods and data in other objects are the same run."""
    for rounds in (2, 3):
        method = fgmp.FedGradMP(3, dictionary=fgmp.gaussian_dictionary(40, 60, rng=0))
        fed = noisy_regression(n_features=40)
        resumed = run_to(path, rounds, method, fed, rng=None)
    assert checksum(resumed) == checksum(fgmp.simulate(method, fed, 3, 4, resumed.seed))


def test_resuming_for_fewer_rounds_is_refused(path):
    """A checkpoint of four rounds cannot give three, and stays as it is."""
    run_to(path, 4)
    words = "rounds is 3; expected at least 4, which checkpoint .* has"
    with pytest.raises(ValueError, match=words):
        run_to(path, 3)
    assert rounds_in(path) == 4


def test_checkpoint_in_missing_folder_is_an_error(path):
    """The error names the folder, before the first round."""
    with pytest.raises(FileNotFoundError, match="checkpoint cannot be written .*nowhere"):
        run_to(path.parent / "nowhere" / "run.fgmp", 2)


def test_callback_that_raises_leaves_a_whole_checkpoint(path):
    """The checkpoint is of the last finished round, and resumes to the same bits."""

    def broken(run):
        if run.progress.round == 3:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_to(path, 9, callbacks=[fgmp.Checkpoint(path, every=100), broken])
    assert rounds_in(path) == 3
    assert checksum(run_to(path, 9)) == checksum(fgmp.simulate(SPARSE, FED, 9, 4, 0))


def interrupting(where, raised=KeyboardInterrupt):
    """Return a method and a callback, of which one is interrupted after the first round."""

    class Interrupted(fgmp.FedGradMP):
        def client_update(self, client, x, rng):
            if where == "at a client" and len(x.support) and client.client_id == 3:
                raise raised
            return super().client_update(client, x, rng)

    def stop(run):
        if where == "in a callback" and run.progress.round == 1:
            raise raised

    return Interrupted(3), stop


@pytest.mark.parametrize("where", ["at a client", "in a callback"])
def test_ctrl_c_reaches_the_caller_with_a_result(where, path):
    """The exception has the result of the last finished round, which is in the checkpoint too."""
    method, stop = interrupting(where)
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


def test_one_ctrl_c_ends_a_loop_of_runs():
    """The second run of a loop is not started."""
    method, _ = interrupting("at a client")
    begun = []
    with pytest.raises(KeyboardInterrupt):
        for seed in range(3):
            begun.append(seed)
            fgmp.simulate(method, FED, 9, rng=seed)
    assert begun == [0]


@pytest.mark.parametrize("what", ["tune", "polish", "fit"])
def test_ctrl_c_within_a_search_or_a_fit_leaves_no_result(what, monkeypatch):
    """The result of one of its runs would not answer the question."""
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


def test_checkpoint_that_fails_after_an_error_is_noted_on_it(path):
    """The first error is raised, and all callbacks are ended."""

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


class Noting:
    """A callback that notes what is called, and fails in one of its methods."""

    def __init__(self, name, calls, failing=""):
        self.name = name
        self.calls = calls
        self.failing = failing

    def note(self, what):
        """Note a call, and fail if this is the one."""
        self.calls.append(f"{self.name} {what}")
        if self.failing == what:
            raise ValueError(f"{self.name} {what}")

    def begin(self, run):
        """Note that the run begins."""
        self.note("begins")

    def __call__(self, run):
        """Do nothing after a round."""

    def end(self, run):
        """Note that the run ends."""
        self.note("ends")


def test_callback_that_fails_at_the_end_does_not_keep_others_from_ending():
    """All callbacks are ended, and then the error is raised."""
    calls = []
    two = Noting("two", calls, failing="ends")
    with pytest.raises(ValueError, match="two ends"):
        fgmp.simulate(SPARSE, FED, 1, callbacks=[Noting("one", calls), two, Noting("three", calls)])
    names = ("one", "two", "three")
    assert calls == [f"{name} {what}" for what in ("begins", "ends") for name in names]


def test_callback_that_fails_at_the_beginning_ends_those_that_began():
    """A callback that was not begun is not ended."""
    calls = []
    two = Noting("two", calls, failing="begins")
    with pytest.raises(ValueError, match="two begins"):
        fgmp.simulate(SPARSE, FED, 1, callbacks=[Noting("one", calls), two, Noting("three", calls)])
    assert calls == ["one begins", "two begins", "one ends", "two ends"]


def test_damaged_checkpoint_is_refused_before_it_is_unpickled(path, monkeypatch):
    """One flipped bit in every byte, a cut and an addition are noticed, and the file stays."""
    run_to(path, 3)
    whole = path.read_bytes()
    monkeypatch.setattr("pickle.loads", lambda *_: pytest.fail("something was unpickled"))
    rng = np.random.default_rng(0)
    spoilt = [whole[:-1], whole + b"\0", whole[:80], b"", b"fgmp"]
    for index in range(len(whole)):
        one = bytearray(whole)
        one[index] ^= 1 << rng.integers(8)
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


@pytest.mark.parametrize(
    "content",
    [pickle.dumps(({}, 0, b"", (None, [], None))), b"fgmp checkpoint 1 and so on"],
    ids=["pickle alone", "format 1"],
)
def test_checkpoint_of_an_older_version_is_refused_as_such(path, content):
    """The message says that another version wrote the file."""
    path.write_bytes(content)
    words = r"run.fgmp' cannot be read \(is of another version of fgmp\)"
    with pytest.raises(ValueError, match=words):
        run_to(path, 3)


def test_file_that_is_no_checkpoint_is_refused(path):
    """A file of something else is not overwritten."""
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"cannot be read \(is none\)"):
        run_to(path, 3)
    assert path.read_bytes() == b"a,b\n1,2\n"


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_checkpoint_is_readable_by_its_owner_alone(path, monkeypatch):
    """Also if a partial file of a killed run, which others may read, lies beside it."""
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
    assert sorted(path.parent.iterdir()) == [path, path.with_name("run.fgmp.lock")]
    assert mode_of(path.with_name("run.fgmp.lock")) == 0o600


@pytest.mark.parametrize("name", ["run.fgmp.partial", "run.fgmp.lock"])
def test_link_beside_a_checkpoint_is_not_followed(name, path):
    """A link at the name of the partial file or of the lock is replaced."""
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.with_name(name).symlink_to(victim)
    run_to(path, 2)
    assert victim.read_text() == "precious"
    assert rounds_in(path) == 2
    assert not path.is_symlink()


@pytest.fixture
def linked(path):
    """Where a link at the path of the checkpoint leads."""
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    path.symlink_to(elsewhere / "kept.fgmp")
    return elsewhere / "kept.fgmp"


def test_checkpoint_at_a_link_is_the_file_that_it_leads_to(path, linked):
    """The link stays a link, and the run resumes from the file."""
    run_to(path, 2)
    resumed = run_to(path, 4)
    assert path.is_symlink()
    assert rounds_in(linked) == 4
    assert checksum(resumed) == checksum(fgmp.simulate(SPARSE, FED, 4, 4, 0))


def test_link_to_something_else_is_not_overwritten(path, linked):
    """What is no checkpoint stays as it is."""
    linked.write_text("precious")
    with pytest.raises(ValueError, match="cannot be read"):
        run_to(path, 5)
    assert linked.read_text() == "precious"


def test_second_run_on_the_same_path_is_refused(path):
    """The first run goes on to the same bits, and the next one is not refused."""
    refused = []
    checkpoint = fgmp.Checkpoint(path, every=1)

    def second(run):
        if run.progress.round == 2:
            for other in (fgmp.Checkpoint(path), checkpoint):
                with pytest.raises(BlockingIOError, match="under way; .*run.fgmp") as caught:
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


def test_data_are_hashed_once_for_a_run(path, monkeypatch):
    """Each run computes its identity once, however many checkpoints it writes."""
    computed = []
    identity = callbacks.identity
    monkeypatch.setattr(callbacks, "identity", lambda run: computed.append(run) or identity(run))
    run_to(path, 6, callbacks=fgmp.Checkpoint(path, every=1))
    assert len(computed) == 1
    run_to(path, 8, callbacks=fgmp.Checkpoint(path, every=1))
    assert len(computed) == 2


class Plain(Method):
    """A method that is no dataclass, and caches something."""

    def __init__(self, size=3):
        self.inner = fgmp.FedGradMP(size)

    @cached_property
    def cached(self):
        return object()

    def start(self, info):
        assert self.cached is not None
        return self.inner.start(info)

    def exchanges(self):
        return self.inner.exchanges()


def test_method_that_is_no_dataclass_is_resumed(path):
    """It is compared by its attributes, without what it caches."""
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


def scale_values(factor):
    """Return a function that multiplies the values of an update."""
    return lambda update, client_id: replace(update, values=factor * update.values)


def corrupted(change):
    """Return the federation, in which one client sends something else."""
    return fgmp.Faulty(FED, Corrupted(change, clients=[1]))


def test_run_with_an_equal_function_is_resumed(path):
    """A function is compared by what it does and holds, not by its address."""
    run_to(path, 2, fed=corrupted(scale_values(2.0)))
    resumed = run_to(path, 3, fed=corrupted(scale_values(2.0)))
    assert resumed.history["round"][-1] == 3


@pytest.mark.parametrize(
    "other",
    [
        scale_values(3.0),
        lambda update, client_id: update,
        lambda update, client_id: None,
        partial(scale_values(2.0)),
    ],
    ids=["another number", "another body", "another constant", "partial"],
)
def test_run_with_another_function_is_another_run(path, other):
    """It differs by what it does or by what it holds."""
    run_to(path, 2, fed=corrupted(scale_values(2.0)))
    with pytest.raises(ValueError, match="is of another run: .*faults.0.change"):
        run_to(path, 4, fed=corrupted(other))


def test_function_that_calls_itself_has_an_identity():
    """A recursive function does not make the comparison endless."""

    def recursive(update, client_id):
        return recursive(update, client_id) if client_id < 0 else update

    assert callbacks._named("it", recursive) == callbacks._named("it", recursive)


def process(path, rounds, *more, every="1"):
    command = [sys.executable, run_in_subprocess.__file__, str(path), str(rounds), every, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_killed_run_is_resumed(path):
    """After SIGKILL at any time, three times, the file is whole and the bits are the same."""
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
def test_terminated_run_writes_its_checkpoint(name, path):
    """With the default pause of a minute no checkpoint was due before the signal."""
    number = getattr(signal, name)
    # If this process ignores the signal, its children would too.
    default = signal.signal(number, signal.SIG_DFL)
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


@pytest.fixture
def sigterm():
    """SIGTERM, whose handler is restored afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    yield signal.SIGTERM
    signal.signal(signal.SIGTERM, before)


def handler_within_run(path, number):
    """Return the handler of a signal during a run with a checkpoint."""
    handlers = []

    def note(run):
        handlers.append(signal.getsignal(number))

    run_to(path, 1, callbacks=[fgmp.Checkpoint(path), note])
    return handlers[-1]


def test_default_handler_of_a_signal_is_replaced_for_the_run_alone(path, sigterm):
    """A checkpoint handles SIGTERM, and gives it back."""
    signal.signal(sigterm, signal.SIG_DFL)
    assert callable(handler_within_run(path, sigterm))
    assert signal.getsignal(sigterm) == signal.SIG_DFL


def test_ignored_signal_stays_ignored(path, sigterm):
    """A process that ignores SIGTERM goes on to ignore it."""
    signal.signal(sigterm, signal.SIG_IGN)
    assert handler_within_run(path, sigterm) == signal.SIG_IGN
    assert signal.getsignal(sigterm) == signal.SIG_IGN


@pytest.mark.parametrize("event", ["disk_full", "read_only"])
def test_checkpoint_that_cannot_be_written_warns_once(event, path):
    """The run goes on, and the last checkpoint that was written stays."""
    started = process(path, 12, event)
    out, err = started.communicate(timeout=120)
    assert out.splitlines() == ["started", "after 5", "finished 12"], err
    assert err.count("could not be written") == 1
    assert rounds_in(path) == 5
    path.parent.chmod(0o755)
