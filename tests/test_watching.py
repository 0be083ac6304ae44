"""Checkpoints: a run goes on to the same bits, also after SIGKILL; a damaged file, another run, a full disk."""

import inspect
import os
import signal
import subprocess
import sys
import time

import numpy as np
import one_run
import pytest
from one_run import bits, number_in
from test_simulate import ALL

import fgmp
from fgmp.methods.support_solvers import SupportSolver
from fgmp.rounds import Method

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

FED = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
SPARSE = fgmp.FedGradMP(3, batch_size=10)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.fgmp"


def run_to(path, rounds, method=SPARSE, fed=FED, **options):
    return fgmp.simulate(method, fed, rounds, **{"cohort_size": 4, "rng": 0, "watch": fgmp.Checkpoint(path)} | options)


def test_every_method_is_here():
    """A method that comes later has to be resumed here too."""
    public = {thing for name in fgmp.__all__ if inspect.isclass(thing := getattr(fgmp, name))}
    methods = {thing for thing in public if issubclass(thing, Method) and not issubclass(thing, SupportSolver)}
    assert methods == {type(method) for method in ALL.values()}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("recorded", "every"), [(1, 1), (2, None)])
def test_a_run_goes_on_to_the_same_bits(name, recorded, every, path):
    """In several parts, each of which opens the file anew; nothing is done twice."""
    history, seen = fgmp.History(every=recorded, metrics={"size": np.linalg.norm}), []
    whole = fgmp.simulate(ALL[name], FED, 5, 4, 7, history=history)
    for before, rounds in [(0, 1), (1, 3), (3, 5)]:
        seen.clear()
        watch = [fgmp.Checkpoint(path, every), lambda run: seen.append(run.step.round)]
        part = fgmp.simulate(ALL[name], FED, rounds, 4, 7, history=history, watch=watch)
        assert seen == list(range(before, rounds + 1))
    assert bits(part) == bits(whole)
    assert bits(fgmp.simulate(ALL[name], FED, 4, 4, 7)) != bits(whole)


TURNED = fgmp.Dictionary(np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0])
OTHERS = {
    "method.sparsity is 4, not 3": {"method": fgmp.FedGradMP(4, batch_size=10)},
    "method.dictionary is Dictionary .*, not StandardBasis": {"method": fgmp.FedGradMP(3, 3, 10, TURNED)},
    "seed is 1, not 0": {"rng": 1},
    "cohort_size is 5, not 4": {"cohort_size": 5},
    "every is 2, not 1": {"history": fgmp.History(every=2)},
    "metrics.0 is 'size', not absent": {"history": fgmp.History(metrics={"size": np.linalg.norm})},
    "reduce is Median, not Mean": {"reduce": fgmp.Median()},
    "faults.0.probability is 0.1, not absent": {"fed": fgmp.Faulty(FED, fgmp.DropOut(probability=0.1))},
    "weights is .*, not ": {"fed": fgmp.Federation.of(FED.clients, np.arange(1.0, 7), truth=FED.truth)},
    "keys is .*, not ": {"fed": FED.part(np.arange(5))},
    "data.* is .*, not ": {"fed": fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.02, rng=0)},
}


@pytest.mark.parametrize("message", OTHERS)
def test_another_run_is_refused_and_what_differs_is_named(message, path):
    run_to(path, 2)
    with pytest.raises(ValueError, match=f"is of another run: .*{message}"):
        run_to(path, 4, **OTHERS[message])
    assert bits(run_to(path, 4)) == bits(fgmp.simulate(SPARSE, FED, 4, 4, 0))


def test_the_same_run_in_other_objects_is_the_same_and_no_seed_is_that_of_the_file(path):
    for rounds in (2, 3):
        method = fgmp.FedGradMP(3, dictionary=fgmp.gaussian_dictionary(40, 60, rng=0))
        fed = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
        resumed = run_to(path, rounds, method, fed, rng=None)
    assert bits(resumed) == bits(fgmp.simulate(method, fed, 3, 4, resumed.seed))


def test_fewer_rounds_a_damaged_file_or_no_folder_are_errors_and_nothing_is_lost(path):
    run_to(path, 4)
    with pytest.raises(ValueError, match="rounds is 3; expected at least 4, which checkpoint .* has"):
        run_to(path, 3)
    whole = path.read_bytes()
    for content in (b"", b"fgmp", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="run.fgmp' cannot be read .*; expected a file that this version wrote"):
            run_to(path, 5)
        assert path.read_bytes() == content
    with pytest.raises(FileNotFoundError, match="checkpoint cannot be written .*nowhere"):
        run_to(path.parent / "nowhere" / "run.fgmp", 2)


def test_what_was_written_of_a_round_is_whole_when_a_watcher_raises(path):
    def broken(run):
        if run.step.round == 3:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_to(path, 9, watch=[fgmp.Checkpoint(path, every=100), broken])
    assert number_in(path) == 3
    assert bits(run_to(path, 9)) == bits(fgmp.simulate(SPARSE, FED, 9, 4, 0))


@pytest.mark.parametrize("place", ["at a client", "while watching"])
def test_ctrl_c_returns_what_there_is(place, path):
    class Interrupted(fgmp.FedGradMP):
        def at_client(self, client, x, rng):
            if place == "at a client" and len(x.support) and client.key == 3:
                raise KeyboardInterrupt
            return super().at_client(client, x, rng)

    def stop(run):
        if place == "while watching" and run.step.round == 1:
            raise KeyboardInterrupt

    with pytest.warns(fgmp.AdviceWarning, match="Ctrl-C ended the run after round 1 of 9"):
        result = run_to(path, 9, Interrupted(3), watch=[fgmp.Checkpoint(path), stop], cohort_size=None)
    assert result.interrupted and result.history["round"].tolist() == [0, 1] and number_in(path) == 1
    np.testing.assert_allclose(result.x, fgmp.simulate(fgmp.FedGradMP(3), FED, 1, rng=0).x, atol=1e-12)


def process(path, rounds, *more):
    command = [sys.executable, one_run.__file__, str(path), str(rounds), "1", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_run_that_is_killed_goes_on(path):
    """SIGKILL after a few rounds, wherever it comes, three times; the file is always whole."""
    for _ in range(3):
        before, started = number_in(path) if path.exists() else -1, process(path, 100_000)
        deadline = time.monotonic() + 60
        while not (path.exists() and number_in(path) > before + 2) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(started.pid, signal.SIGKILL)
        started.communicate()
        assert number_in(path) > before
    rounds = number_in(path) + 2
    resumed = run_to(path, rounds, one_run.METHOD, one_run.federation(), cohort_size=5)
    assert bits(resumed) == bits(fgmp.simulate(one_run.METHOD, one_run.federation(), rounds, 5, 0))


@pytest.mark.parametrize("event", ["disk_full", "read_only"])
def test_a_checkpoint_that_cannot_be_written_is_said_once_and_the_run_goes_on(event, path):
    started = process(path, 12, event)
    out, err = started.communicate(timeout=120)
    assert out.split() == ["started", "finished", "12"], err
    assert err.count("could not be written") == 1 and number_in(path) == 5
    path.parent.chmod(0o755)
