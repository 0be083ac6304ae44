"""The generators of a cohort have the bits that NumPy's seed sequence gives each client on its own."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.running.generators import client_generators
from fgmp.running.workers import client_generator

wide = st.integers(0, 2**200) | st.integers(0, 2**33) | st.integers(0, 3)
keys = st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 3), min_size=1, max_size=8)


def plain(seed, number, exchange, key):
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, number, exchange, key)))


@settings(deadline=None, max_examples=300)
@given(wide, st.integers(0, 2**70) | st.integers(0, 300), st.integers(0, 2**33) | st.integers(0, 2), keys)
@example(0, 0, 0, [0, 0, 0])
@example(2**128 - 1, 2**32, 2**32 - 1, [2**32 - 1, 0, 1])
@example(2**128, 1, 0, [1, 2, 3, 4])
def test_the_streams_are_those_of_a_seed_sequence(seed, number, exchange, keys):
    for key, found in zip(keys, client_generators(seed, number, exchange, keys), strict=True):
        expected = plain(seed, number, exchange, key)
        assert found.bit_generator.state == expected.bit_generator.state
        np.testing.assert_array_equal(found.standard_normal(3), expected.standard_normal(3))


def test_keys_of_several_words_are_served_too():
    for keys in ([1, 2**32, 2**80 + 7, 3], [2**32, 1, 2]):
        for key, generator in zip(keys, client_generators(5, 1, 0, keys), strict=True):
            assert generator.random() == plain(5, 1, 0, key).random()


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_what_is_spawned_or_copied_is_the_same(count):
    for key, found in enumerate(client_generators(11, 2, 1, range(count))):
        expected = plain(11, 2, 1, key)
        assert [g.random() for g in found.spawn(2)] == [g.random() for g in expected.spawn(2)]
        assert found.spawn(1)[0].random() == expected.spawn(1)[0].random()
        for twin in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
            assert twin.random() == plain(11, 2, 1, key).random()
        wanted = np.random.SeedSequence(11, spawn_key=(1, 2, 1, key)).generate_state(7)
        np.testing.assert_array_equal(found.bit_generator.seed_seq.generate_state(7), wanted)


def test_a_client_has_the_same_numbers_in_any_cohort():
    clients = fgmp.make_sparse_regression(5, 10, 8, 2, rng=0).clients
    together = [g.random() for g in client_generators(3, 4, 0, [client.key for client in clients])]
    assert together == [client_generator(3, 4, 0, client).random() for client in clients]
    assert together == [plain(3, 4, 0, client.key).random() for client in clients]
