"""One session of the simulation engine: methods, losses and masks, to the same bits as in one process."""

import warnings

from flwr.supercore import telemetry
from here import assert_same_run, loader
from test_channel import ANY, LOGISTIC, SOFTMAX, SQUARED

import fgmp
from fgmp.flower import OverFlower, client_app, on_engine

PROBLEMS = {"squared": SQUARED.subset([0, 1, 2]), "logistic": LOGISTIC, "softmax": SOFTMAX}
RUNS = [
    *({"method": method} for method in (ANY[0], *ANY[3:9:2])),
    {"method": ANY[0], "aggregator": fgmp.SecureSum()},
]
PLAN = {"rounds": 2, "cohort_size": 2, "rng": 7}


def load(context, settings):
    return loader(PROBLEMS[settings["loss"]])(context, settings)


def serve(grid):
    transports = [
        OverFlower(grid, each.loss, 3, settings={"loss": loss}) for loss, each in PROBLEMS.items()
    ]
    return [
        fgmp.simulate(clients=transport, **run, **PLAN) for transport in transports for run in RUNS
    ]


def test_the_same_bits_as_in_one_process_and_no_telemetry(monkeypatch):
    monkeypatch.setattr(
        telemetry, "FLWR_TELEMETRY_ENABLED", "1"
    )  # as where Flower was imported before
    monkeypatch.setattr(telemetry, "TELEMETRY_EVENTS_URL", "http://127.0.0.1:9")
    with warnings.catch_warnings(action="ignore"):
        there = on_engine(serve, client_app(load), 3)
        here = [
            fgmp.simulate(clients=federation, **run, **PLAN)
            for federation in PROBLEMS.values()
            for run in RUNS
        ]
    for one, other in zip(there, here, strict=True):
        assert_same_run(one, other)
    assert telemetry.FLWR_TELEMETRY_ENABLED == "0"
