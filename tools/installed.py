"""Install fgmp with one extra into an empty environment, and run an example of what the extra is for.

`make dist` tries core, and `make dist-extras` each extra alone. Only in an empty environment a missing
dependency shows. Without `make`: ``python tools/installed.py . core``, or a wheel in place of the dot.
For each environment one line says how large it is. An example reads README where the example stands
there, and is otherwise a few lines below. "readme" is what README says to install for a table, and runs
its lines.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

START = """
import sys, warnings
from importlib.metadata import version
from importlib.util import find_spec
import numpy as np
import fgmp

assert version("fgmp") == fgmp.__version__, (version("fgmp"), fgmp.__version__)
assert "site-packages" in fgmp.__file__, fgmp.__file__
rng = np.random.default_rng(0)
federation = fgmp.make_sparse_regression(n_clients=6, n_samples=60, n_features=40, sparsity=3, rng=0)
"""

# What each extra alone must be able to do. "core" is no extra: it is what is there without one.
EXAMPLES = {
    "core": """
        OPTIONAL = "sklearn narwhals pydantic numba matplotlib PIL pooch tqdm click flwr cryptography".split()
        present = [name for name in OPTIONAL if find_spec(name) is not None]
        assert not present, f"core asked for {present}"
        names = {}
        exec(readme("make_sparse_regression"), names)
        assert names["result"].history["relative_error"][-1] < 1e-12
        As = [rng.standard_normal((80, 60)) for _ in range(12)]
        names |= {"As": As, "ys": [A[:, 0] for A in As]}
        exec(readme("from_arrays"), names)
        assert np.allclose(names["result"].x, np.eye(60)[0])
        try:
            fgmp.FedGradMPClassifier
        except ImportError as missing:
            assert "pip install scikit-learn narwhals tqdm" in str(missing), missing
        else:
            raise AssertionError("an estimator without scikit-learn")
        assert names["result"].backend == "reference"
    """,
    "estimators": """
        X, site = rng.standard_normal((600, 8)), rng.integers(4, size=600)
        y = np.where(2 * X[:, 1] - 2 * X[:, 5] + rng.logistic(size=600) > 0, "ill", "well")
        model = fgmp.FedGradMPClassifier(sparsity="cv", random_state=0).fit(X, y, groups=site)
        assert model.support_.tolist() == [1, 5]
        assert len(fgmp.datasets.heart_disease().y) == 920
        assert fgmp.digits_by_writer().train.n_clients > 10
    """,
    "fast": """
        with fgmp.backend("compiled"):
            result = fgmp.simulate(fgmp.FedGradMP(3), federation, 8, rng=0)
        assert result.backend == "compiled", (result.backend, result.fallbacks)
    """,
    "estimators,plot": """
        import matplotlib
        matplotlib.use("agg")
        X = rng.standard_normal((300, 8))
        model = fgmp.FedGradMPRegressor("cv", random_state=0).fit(X, X[:, 1] + rng.standard_normal(300))
        model.bootstrap(5, over="rows").plot().figure.savefig("bootstrap.png")
        model.cv_.plot().figure.savefig("path.png")
    """,
    "readme": """
        import matplotlib
        matplotlib.use("agg")
        names = {}
        exec(readme("FedGradMPClassifier").replace("bootstrap(200,", "bootstrap(5,"), names)
        assert 1 < len(names["model"].support_) < 6
    """,
    "data": """
        fgmp.simulate(fgmp.FedGradMP(3), federation, 8, rng=0, callbacks=fgmp.Bar())
        import pooch, PIL
        assert fgmp.datasets.fetch.__doc__
    """,
    "video": """
        import av
        with av.open("clip.mp4", "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
            for level in range(4):
                image = np.full((32, 32, 3), 60 * level, np.uint8)
                for packet in stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")):
                    container.mux(packet)
            for packet in stream.encode():
                container.mux(packet)
        frames = fgmp.datasets.load_video("clip.mp4", 3, 16, 16)
        assert len(frames) == 3
    """,
    "femnist": """
        import h5py
        with h5py.File("writers.h5", "w") as file:
            for name in ("a", "b"):
                writer = file.create_group(f"examples/{name}")
                writer["pixels"] = rng.random((12, 28, 28)).astype(np.float32)
                writer["label"] = np.arange(12) % 10
        from fgmp.datasets.digits import femnist_writers
        assert len(femnist_writers(["writers.h5"])) > 0
    """,
    "secure": """
        hidden = fgmp.simulate(fgmp.FedGradMP(3), federation, 8, rng=0, aggregator=fgmp.SecureSum())
        assert hidden.history["relative_error"][-1] < 1e-9
    """,
    "privacy": """
        noise = fgmp.GaussianNoise(epsilon=20.0, clip=1.0)
        warnings.simplefilter("ignore", fgmp.AdviceWarning)
        private = fgmp.simulate(fgmp.FedGradMP(3), federation, 3, rng=0, aggregator=noise)
        assert 0 < private.history["epsilon"][-1] <= 20
    """,
    "flower": """
        from fgmp.flower import OverFlower, client_app, on_engine
        rows = [(client.features, client.targets) for client in federation.clients]
        app = client_app(lambda context, settings: rows[context.node_config["partition-id"]])

        def serve(grid):
            transport = OverFlower(grid, fgmp.SquaredLoss(), n_clients=6)
            return fgmp.simulate(fgmp.FedGradMP(3), transport, 8, rng=0)

        over_flower = on_engine(serve, app, n_clients=6)
        here = fgmp.simulate(fgmp.FedGradMP(3), federation, 8, rng=0)
        assert np.array_equal(over_flower.x, here.x)
    """,
}

READ_README = """
def readme(word):
    import re
    text = open({readme!r}, encoding="utf-8").read()
    blocks = re.findall(r"```python\\n(.*?)```", text, flags=re.DOTALL)
    (block,) = [block for block in blocks if word in block]
    return block
"""


def main(package: str, *extras: str) -> None:
    """Try a package with each of some extras, or with all that have an example."""
    if package != ".":
        package = str(Path(package).resolve())
    unknown = set(extras) - set(EXAMPLES)
    if unknown:
        sys.exit(f"no example of {', '.join(unknown)}; expected some of {', '.join(EXAMPLES)}")
    for extra in extras or EXAMPLES:
        print(try_extra(package, extra), flush=True)


def try_extra(package: str, extra: str) -> str:
    """Return what an environment with one extra has, after its example has run there."""
    with tempfile.TemporaryDirectory() as folder:
        python = empty_environment(Path(folder))
        n_before, bytes_before = contents(Path(folder))
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-compile", *requirements(package, extra)], check=True)
        n_after, bytes_after = contents(Path(folder))

        # Without the paths of whoever runs this: only what was installed may be imported.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        example = READ_README.format(readme=str(ROOT / "README.md")) + START
        example += textwrap.dedent(EXAMPLES[extra])
        command = [python, "-W", "error::DeprecationWarning:fgmp", "-c", example]
        subprocess.run(command, check=True, cwd=folder, env=variables)
        size = f"{n_after - n_before} distributions of {(bytes_after - bytes_before) / 1e6:.0f} MB"
        return f"{extra}: {size}, its example ran"


def requirements(package: str, extra: str) -> list[str]:
    """Return what pip is asked to install."""
    wanted = str(ROOT) if package == "." else package
    if extra == "core":
        return [wanted]
    if extra == "readme":
        (line, *_) = re.findall(r"`pip install (.*?)`", (ROOT / "README.md").read_text())
        return [word.replace(".[", f"{wanted}[") for word in shlex.split(line)]
    return [f"{wanted}[{extra}]"]


def empty_environment(folder: Path) -> str:
    """Make an environment with nothing but pip, and return its Python."""
    venv.create(folder, with_pip=True)
    inside = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    return str(folder / inside)


def contents(folder: Path) -> tuple[int, int]:
    """Return the number of distributions in an environment, and the bytes of their files."""
    packages = next(folder.rglob("site-packages"))
    files = [path for path in packages.rglob("*") if path.is_file() and not path.is_symlink()]
    return len(list(packages.glob("*.dist-info"))), sum(path.stat().st_size for path in files)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
