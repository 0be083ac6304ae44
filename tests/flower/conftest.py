"""Telemetry is off before anything of Flower is imported; without Flower these tests are not collected."""

import importlib.util
import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

# `make test-flower` sets FGMP_FLOWER, so that there nothing is left out in silence.
if importlib.util.find_spec("flwr") is None and not os.environ.get("FGMP_FLOWER"):
    collect_ignore_glob = ["*.py"]
