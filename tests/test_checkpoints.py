"""Checkpoints: a run goes on to the same bits, a damaged file is recognised, and another run is refused."""

import inspect
from dataclasses import dataclass, replace

import numpy as np
import pytest
from one_run import bits
from scipy import sparse

import fgmp

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.RisingObjectiveWarning"),
    pytest.mark.filterwarnings("ignore::fgmp.FewRowsWarning"),
]

FED = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
RATE = {"learning_rate": 0.05, "local_iterations": 2, "batch_size": 10}
TURNED = fgmp.Dictionary(np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0])
METHODS = {
    "FedGradMP": fgmp.FedGradMP(3, batch_size=10),
    "dictionary": fgmp.FedGradMP(3, dictionary=fgmp.gaussian_dictionary(40, 60, rng=0)),
    "svrg": fgmp.FedGradMP(3, solver=fgmp.SVRG(1, 0.01), radius=3.0, selection=fgmp.PerOutput(always=(0,))),
    "FedAvg": fgmp.FedAvg(**RATE, server_learning_rate=0.5, dictionary=TURNED),
    "FedHT": fgmp.FedHT(sparsity=3, **RATE),
    "FedIterHT": fgmp.FedIterHT(sparsity=3, **RATE),
    "FedMid": fgmp.FedMid(l1_weight=0.01, **RATE),
    "FedDualAvg": fgmp.FedDualAvg(l1_weight=0.01, **RATE),
    "FastFedDualAvg": fgmp.FastFedDualAvg(l1_weight=0.01, **RATE),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(3),
    "conjugate": fgmp.SharedSupportGradMP(3, solver=fgmp.PooledConjugateGradient(3)),
    "newton": fgmp.SharedSupportGradMP(3, solver=fgmp.PooledNewton(2)),
    "local": fgmp.SharedSupportGradMP(3, solver=fgmp.LocalSteps(fgmp.SGD(2))),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.fgmp"


def test_every_method_is_here():
    """A method that comes later has to be resumed here too."""
    public = {thing for name in fgmp.__all__ if inspect.isclass(thing := getattr(fgmp, name))}
    methods = {thing for thing in public if hasattr(thing, "exchanges") and hasattr(thing, "start")}
    assert methods == {type(method) for method in METHODS.values()}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("record_every", "every"), [(1, 1), (2, None)])
def test_a_run_goes_on_to_the_same_bits(name, record_every, every, path):
    """In several parts, each of which opens the file anew."""
    options = {"cohort_size": 4, "rng": 7, "record_every": record_every, "metrics": {"size": np.linalg.norm}}
    whole = fgmp.simulate(METHODS[name], FED, 5, **options)
    seen = []
    options |= {"checkpoint": path, "every": every, "callback": lambda history: seen.append(history["round"][-1])}
    for before, rounds in [(0, 1), (1, 3), (3, 5)]:
        seen.clear()
        part = fgmp.simulate(METHODS[name], FED, rounds, **options)
        assert set(seen) <= set(range(before, rounds + 1))  # nothing is done twice
    assert bits(part) == bits(whole)
    assert bits(fgmp.simulate(METHODS[name], FED, 4, cohort_size=4, rng=7)) != bits(whole)


def test_a_round_left_in_the_middle_goes_on(path):
    """Nobody answers the second exchange of round 2: what a solver remembers between two exchanges is in the state."""
    for solver in (fgmp.PooledConjugateGradient(3), fgmp.PooledNewton(2)):
        method = Deaf(fgmp.SharedSupportGradMP(3, solver=solver), 2)
        whole = fgmp.simulate(method, FED, 3, rng=0)
        first = fgmp.simulate(method, FED, 2, rng=0, checkpoint=path)
        assert first.state.point.memory is not None and first.history["clients"][-1] == 0
        assert bits(fgmp.simulate(method, FED, 3, rng=0, checkpoint=path)) == bits(whole)
        path.unlink()


@dataclass(frozen=True)
class Deaf:
    """A method in which no answer to an exchange arrives."""

    method: object
    index: int

    def __getattr__(self, name):
        return getattr(self.method, name)

    def exchanges(self):
        exchanges = list(self.method.exchanges())
        exchanges[self.index] = exchanges[self.index]._replace(answer=lambda client, message, rng: None)
        return exchanges


def test_no_seed_is_the_seed_of_the_file(path):
    first = fgmp.simulate(METHODS["FedGradMP"], FED, 2, 3, checkpoint=path)
    second = fgmp.simulate(METHODS["FedGradMP"], FED, 4, 3, checkpoint=path)
    assert second.seed == first.seed
    assert bits(second) == bits(fgmp.simulate(METHODS["FedGradMP"], FED, 4, 3, first.seed))


def run_to(path, rounds, method=METHODS["FedGradMP"], fed=FED, **options):
    return fgmp.simulate(
        method, fed, rounds, **({"cohort_size": 4, "rng": 0, "checkpoint": path, "every": 1} | options)
    )


OTHERS = {
    r"method is FedGradMP\(sparsity=4, .*, not FedGradMP\(sparsity=3, ": {"method": fgmp.FedGradMP(4, batch_size=10)},
    r"method is FedAvg\(.*, not FedGradMP\(": {"method": METHODS["FedAvg"]},
    r"method is FedGradMP\(": {"method": fgmp.FedGradMP(3, batch_size=10, dictionary=TURNED)},
    "seed is 1, not 0;": {"rng": 1},
    "cohort_size is 5, not 4;": {"cohort_size": 5},
    "record_every is 2, not 1;": {"record_every": 2},
    "metrics is 'size', not ''": {"metrics": {"size": np.linalg.norm}},
    "another run: weights is .*, not ": {"fed": replace(FED, weights=np.arange(1.0, 7))},
    "n_clients is 5, not 6;": {"fed": fgmp.Federation(FED.clients[:5], FED.weights[:5], FED.truth)},
    "another run: data is '[0-9a-f]+', not '[0-9a-f]+';": {
        "fed": replace(FED, clients=(*FED.clients[:5], replace(FED.clients[5], targets=FED.clients[5].targets + 1e-15)))
    },
}


@pytest.mark.parametrize("message", OTHERS)
def test_another_run_is_refused_and_what_differs_is_named(message, path):
    run_to(path, 2)
    with pytest.raises(ValueError, match=message):
        run_to(path, 4, **OTHERS[message])
    run_to(path, 4)


def test_the_same_run_in_other_objects_is_the_same(path):
    run_to(path, 2, fgmp.FedGradMP(3, dictionary=fgmp.gaussian_dictionary(40, 60, rng=0)))
    again = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
    run_to(path, 3, fgmp.FedGradMP(3, dictionary=fgmp.gaussian_dictionary(40, 60, rng=0)), again)


def test_fewer_rounds_than_there_are_is_an_error(path):
    run_to(path, 4)
    with pytest.raises(ValueError, match="rounds is 3; expected at least 4, which checkpoint .* has"):
        run_to(path, 3)


def test_a_file_that_is_no_checkpoint_is_refused_and_stays(path):
    run_to(path, 3)
    whole = path.read_bytes()
    for content in (b"", b"fgmp", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="run.fgmp' cannot be read .*; expected a file that this version wrote"):
            run_to(path, 5)
        assert path.read_bytes() == content


def test_a_folder_that_is_not_there_is_an_error_before_the_first_round(path):
    with pytest.raises(FileNotFoundError, match="checkpoint cannot be written .*nowhere"):
        run_to(path.parent / "nowhere" / "run.fgmp", 2)


def test_sparse_features_are_known_by_their_numbers(path):
    def federation(change):
        rng = np.random.default_rng(0)
        As = [sparse.random_array((40, 60), density=0.1, rng=rng, format="csr") for _ in range(4)]
        As[2].data[5] += change
        return fgmp.Federation.from_arrays(As, [rng.standard_normal(40) for _ in range(4)])

    method = fgmp.FedGradMP(3, batch_size=10)
    whole = fgmp.simulate(method, federation(0), 4, 3, 0)
    fgmp.simulate(method, federation(0), 2, 3, 0, checkpoint=path)
    with pytest.raises(ValueError, match=r"data is '\w+', not '\w+'"):
        fgmp.simulate(method, federation(1e-12), 4, 3, 0, checkpoint=path)
    assert bits(fgmp.simulate(method, federation(0), 4, 3, 0, checkpoint=path)) == bits(whole)
