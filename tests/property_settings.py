"""How property tests draw their cases, where each case is too slow for the defaults."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)


def repeatable(examples: int) -> settings:
    """Draw a fixed number of cases, the same every time; the first failure is shown as it is."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=examples,
        suppress_health_check=slow,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
    )
