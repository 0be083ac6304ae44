"""nbval compares numbers that have a tolerance as numbers, and all else as text: book/comparing.py says how."""

from nbval.plugin import IPyNbCell

from book.comparing import outputs_as_committed, verdicts


def pytest_itemcollected(item):
    """Put the rule before the comparison of a cell, and note how many verdicts differ where it fails."""
    if not isinstance(item, IPyNbCell):
        return
    compare = item.compare_outputs

    def compare_with_tolerance(outputs, committed):
        agrees = compare(outputs_as_committed(outputs, committed), committed)
        if not agrees:
            changed = set(verdicts(outputs)) ^ set(verdicts(committed))
            item.user_properties.append(("verdicts", len(changed)))
        return agrees

    item.compare_outputs = compare_with_tolerance
