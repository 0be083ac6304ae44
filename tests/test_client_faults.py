"""Clients that drop out, are late, send garbage or lie: what reaches the average, what is counted, who is struck."""

from dataclasses import dataclass

import numpy as np
import pytest
from garbage import infinite, lie, not_finite, out_of_range, repeated_indices, too_many_entries, wrong_shape
from one_run import bits

import fgmp
from fgmp import DropOut
from fgmp.methods.answers import REASONS
from fgmp.running.faults import Changed, Faults

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.RisingObjectiveWarning"),
    pytest.mark.filterwarnings("ignore::fgmp.FewRowsWarning"),
]

FED = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
RATE = {"learning_rate": 0.05, "local_iterations": 2}
METHODS = {
    "FedGradMP": fgmp.FedGradMP(3),
    "FedAvg": fgmp.FedAvg(**RATE),
    "FedIterHT": fgmp.FedIterHT(sparsity=3, **RATE),
    "FedDualAvg": fgmp.FedDualAvg(l1_weight=0.01, **RATE),
    "FastFedDualAvg": fgmp.FastFedDualAvg(l1_weight=0.01, **RATE),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(3, fgmp.LargestEntries()),
    "sketched": fgmp.SharedSupportGradMP(3, fgmp.CountSketch(3, 6)),
    "conjugate": fgmp.SharedSupportGradMP(3, solver=fgmp.PooledConjugateGradient(2)),
    "newton": fgmp.SharedSupportGradMP(3, solver=fgmp.PooledNewton(2)),
}
KINDS = {
    "missing": DropOut,
    "not_finite": lambda **whom: Changed(not_finite, **whom),
    "malformed": lambda **whom: Changed(wrong_shape, **whom),
}


def counts(history):
    return {reason: history[f"left_out_{reason}"].tolist() for reason in REASONS}


def without(keys):
    rest = [i for i in range(FED.n_clients) if i not in keys]
    return fgmp.Federation(tuple(FED.clients[i] for i in rest), FED.weights[rest], FED.truth)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("reason", ["missing", "not_finite", "malformed"])
def test_what_is_no_answer_is_left_out_and_counted(name, reason):
    """The run is the one without these clients, and each of their answers is counted once, under its reason."""
    method, exchanges = METHODS[name], len(METHODS[name].exchanges())
    result = fgmp.simulate(method, FED, 3, rng=0, faults=KINDS[reason](clients=[1, 4]))
    np.testing.assert_allclose(result.x, fgmp.simulate(method, without([1, 4]), 3, rng=0).x, atol=1e-9)
    np.testing.assert_array_equal(result.history["clients"], [0, 4, 4, 4])
    expected = dict.fromkeys(REASONS, [0] * 4) | {reason: [0, 2 * exchanges, 4 * exchanges, 6 * exchanges]}
    assert counts(result.history) == expected


@pytest.mark.parametrize("name", ["FedGradMP", "FedIterHT", "SharedSupportGradMP"])
@pytest.mark.parametrize("change", [repeated_indices, out_of_range, too_many_entries, infinite])
def test_sparse_answers_with_wrong_indices_are_left_out_and_counted(name, change):
    fed = fgmp.make_sparse_regression(6, 30, 200, 3, 0.5, noise_variance=0.01, rng=0)
    fault = Changed(change, clients=[2])
    history = fgmp.simulate(METHODS[name], fed, 2, rng=0, faults=[fault]).history
    reason = {repeated_indices: "indices", out_of_range: "indices", too_many_entries: "too_many"}.get(
        change, "not_finite"
    )
    if change is too_many_entries and name == "FedIterHT":  # all entries are as good as a dense model
        reason = None
    where = 2 if change is infinite and name == "SharedSupportGradMP" else 1
    assert counts(history) == {each: [0, where, 2 * where] if each == reason else [0, 0, 0] for each in REASONS}


def test_what_travels_is_counted_among_the_bytes_and_what_does_not_is_not():
    up = {
        reason: fgmp.simulate(METHODS["FedAvg"], FED, 1, faults=KINDS[reason](clients=[0, 1])).history["bytes_up"][-1]
        for reason in KINDS
    }
    whole = 40 * 8
    assert up == {
        "missing": 4 * whole,
        "not_finite": 6 * whole,
        "malformed": 4 * whole + 2 * (whole + 8),
    }


def test_who_drops_out_does_not_compute():
    asked = []

    @dataclass(frozen=True)
    class Spy(fgmp.FedGradMP):
        def refine(self, client, message, rng):
            asked.append(client.key)
            return super().refine(client, message, rng)

    fgmp.simulate(Spy(3), FED, 2, faults=[DropOut(clients=[0, 3])])
    assert asked == [1, 2, 4, 5] * 2


@pytest.mark.parametrize("name", METHODS)
def test_all_faults_at_once_reach_no_average(name):
    """Whatever comes, the model stays finite, what is counted adds up, and it does not matter who computes."""
    changes = (not_finite, wrong_shape, repeated_indices, out_of_range, too_many_entries)
    faults = [DropOut(probability=0.3), *(Changed(change, probability=0.15) for change in changes)]
    result = fgmp.simulate(METHODS[name], FED, 12, cohort_size=5, rng=3, faults=faults)
    assert np.isfinite(result.x).all() and np.isfinite(result.history["objective"]).all()
    left_out = np.array(list(counts(result.history).values()))
    assert (np.diff(left_out) >= 0).all() and (left_out[[0, 2, 3], -1] > 0).all()
    lost = np.diff(left_out.sum(axis=0))
    answered = result.history["clients"][1:]
    assert (lost >= 5 - answered).all() and (lost > 0).any() and (answered > 0).any()
    again = fgmp.simulate(METHODS[name], FED, 12, cohort_size=5, rng=3, faults=tuple(faults))
    assert bits(again) == bits(result)


def test_faults_do_not_depend_on_the_order_nor_on_who_else_is_there():
    faults = [DropOut(probability=0.3), Changed(lie(3.0), probability=0.3)]
    alone = fgmp.simulate(METHODS["FedGradMP"], FED, 4, cohort_size=5, rng=1, faults=faults)
    turned = fgmp.Federation(FED.clients[::-1], FED.weights[::-1], FED.truth)
    assert bits(alone) == bits(fgmp.simulate(METHODS["FedGradMP"], turned, 4, 5, 1, faults=faults))
    many, few = Faults(faults, 1, range(100)), Faults(faults[:1], 1, range(50))
    assert [many.of(3, key).absent for key in range(50)] == [few.of(3, key).absent for key in range(50)]


def test_no_faults_change_nothing_and_count_none():
    plain = fgmp.simulate(METHODS["FedGradMP"], FED, 3, rng=0)
    watched = fgmp.simulate(METHODS["FedGradMP"], FED, 3, rng=0, faults=[])
    np.testing.assert_array_equal(watched.x, plain.x)
    assert not any(name.startswith("left_out") for name in plain.history)
    assert set(watched.history) - set(plain.history) == {f"left_out_{reason}" for reason in REASONS}
    assert all(watched.history[f"left_out_{reason}"].dtype == np.int64 for reason in REASONS)


def test_a_method_that_diverges_by_itself_is_counted():
    method = fgmp.FedGradMP(2, local_iterations=1, solver=fgmp.SGD(400, learning_rate=1e3))
    history = fgmp.simulate(method, FED, 2, rng=0, faults=()).history
    assert history["left_out_not_finite"].tolist() == [0, 6, 12]


def test_how_often_a_fault_strikes():
    """Shares of 5,000 draws against probabilities: four standard deviations are 0.026."""
    plan = Faults([DropOut(probability=0.3), Changed(not_finite, probability=0.5)], 0, range(10))
    struck = [plan.of(number, key) for number in range(500) for key in range(10)]
    assert abs(np.mean([one.absent for one in struck]) - 0.3) < 0.026
    assert abs(np.mean([len(one.changes) for one in struck]) - 0.5) < 0.026
    absent = np.array([one.absent for one in struck]).reshape(500, 10)
    others = np.corrcoef(absent.T)[np.triu_indices(10, 1)]
    assert np.abs(others).max() < 4 / np.sqrt(500) and abs(
        np.corrcoef(absent[1:, 0], absent[:-1, 0])[0, 1]
    ) < 4 / np.sqrt(500)


def test_a_share_of_the_clients_is_drawn_once():
    plan = Faults([DropOut(clients=0.3)], 7, range(50))
    struck = [[key for key in range(50) if plan.of(number, key).absent] for number in (1, 2, 99)]
    assert struck[0] == struck[1] == struck[2] and len(struck[0]) == 15
    assert struck[0] != sorted(Faults([DropOut(clients=0.3)], 8, range(50)).may_strike[0])


@pytest.mark.parametrize("factor", [-1.0, 7.0])
def test_a_lie_is_averaged_as_it_comes(factor):
    """One round of FedAvg by hand: the server adds up what the clients say, with their weights."""
    uneven = fgmp.Federation(FED.clients, np.arange(1.0, 7), FED.truth)
    method = fgmp.FedAvg(learning_rate=0.05)
    result = fgmp.simulate(method, uneven, 1, faults=Changed(lie(factor), clients=[5, 0]))
    ends = [-0.05 * client.gradient(np.zeros(40)) for client in uneven.clients]
    says = [factor if client.key in (0, 5) else 1.0 for client in uneven.clients]
    np.testing.assert_allclose(result.x, np.einsum("i,i,ij->j", uneven.weights, says, ends), atol=1e-14)
    assert result.history["clients"][-1] == 6


def test_a_run_with_faults_goes_on_from_its_checkpoint(tmp_path):
    path, faults = tmp_path / "run.fgmp", [DropOut(probability=0.3), Changed(lie(2.0), clients=0.3)]
    whole = fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 6, 4, 0, faults=faults)
    fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 3, 4, 0, faults=faults, checkpoint=path)
    resumed = fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 6, 4, 0, faults=faults, checkpoint=path)
    assert bits(resumed) == bits(whole)
    with pytest.raises(ValueError, match="faults is .*DropOut.*, not .*DropOut"):
        other = [DropOut(probability=0.3), Changed(lie(3.0), clients=0.3)]
        fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 6, 4, 0, faults=other, checkpoint=path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DropOut(probability=1.5), "probability is 1.5; expected a finite number at least 0 and at most 1"),
        (lambda: DropOut(clients=2.0), "clients is 2.0; expected a finite number"),
        (lambda: DropOut(clients="all"), "clients is 'all'; expected"),
        (lambda: DropOut(clients=[0, -1]), "clients is -1; expected an integer of at least 0"),
        (lambda: Changed("nan"), "change is 'nan'; expected a callable"),
        (lambda: fgmp.simulate(METHODS["FedAvg"], FED, 1, faults=["nan"]), "faults has 'nan'; expected faults such as"),
        (lambda: fgmp.simulate(METHODS["FedAvg"], FED, 1, faults=3), "faults has 3; expected faults such as"),
        (
            lambda: fgmp.simulate(METHODS["FedAvg"], FED, 1, faults=DropOut(clients=[6])),
            "clients names 6; expected keys",
        ),
    ],
)
def test_bad_faults_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
