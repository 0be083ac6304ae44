"""README and CONTRIBUTING: their code runs, and every link leads somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "ERRATA.md", "CLAIMS.md", "data/README.md", "benchmarks/README.md")
]


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_code_of_the_readme_runs():
    synthetic, own, _, additions = python_blocks("README.md")
    names = {}
    exec(synthetic, names)
    assert names["result"].history["relative_error"][-1] <= 1e-14
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((80, 60)) for _ in range(12)]
    names |= {"As": As, "ys": [A[:, 0] for A in As], "atoms": rng.standard_normal((60, 50))}
    exec(own, names)
    assert np.isfinite(names["result"].x).all()
    exec(additions, names)
    np.testing.assert_allclose(names["result"].x, np.eye(60)[0], atol=1e-12)


def test_the_three_lines_for_a_table_run():
    import matplotlib

    import fgmp

    matplotlib.use("agg")
    rng = np.random.default_rng(0)
    X, site = rng.standard_normal((600, 8)), rng.integers(4, size=600)
    y = np.where(2 * X[:, 1] - 2 * X[:, 5] + rng.logistic(size=600) > 0, "ill", "well")
    names = {"fgmp": fgmp, "X": X, "y": y, "site": site}
    lines = python_blocks("README.md")[2]
    assert 'FedGradMPClassifier(sparsity="cv").fit(X, y, groups=site)' in lines
    exec(lines.replace("n_resamples=200", "n_resamples=3"), names)
    np.testing.assert_array_equal(names["model"].support_, [1, 5])
    matplotlib.pyplot.close("all")


def test_the_method_of_contributing_works():
    import fgmp
    from fgmp.methods import baselines

    definition = python_blocks("CONTRIBUTING.md")[0]
    names = vars(baselines).copy()
    exec(definition, names)
    line = python_blocks("CONTRIBUTING.md")[1]
    makers = eval("{" + line + "}", names)
    method = makers["FedClip"](15, 0.1, learning_rate=0.01, local_iterations=2)
    fed = fgmp.make_sparse_regression(3, 20, 30, 3, rng=0)
    history = fgmp.simulate(method, fed, rounds=5).history
    assert history["objective"][-1] < history["objective"][0]
    # A tiny clip, by hand: each client moves by eta times the clip along its gradient at zero, the server averages.
    clip, rate = 1e-3, 0.01
    first = names["FedClip"](clip=clip, learning_rate=rate)
    gradients = [client.gradient(np.zeros(30)) for client in fed.clients]
    by_hand = -rate * clip * np.mean([g / np.linalg.norm(g) for g in gradients], axis=0)
    np.testing.assert_allclose(fgmp.simulate(first, fed, rounds=1).x, by_hand, atol=1e-15)
