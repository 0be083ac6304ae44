"""The heart disease data: what the files say, compared with their own documentation."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fgmp.datasets import heart, heart_disease

ROOT = Path(__file__).parents[1]

# Lines as they are in the files: an integer or a decimal, a question mark, a zero cholesterol.
SAMPLE = {
    "processed.cleveland.data": "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n"
    "67.0,1.0,4.0,160.0,286.0,0.0,2.0,108.0,1.0,1.5,2.0,3.0,3.0,2\n",
    "processed.hungarian.data": "29,1,2,140,?,0,0,170,0,0,?,?,?,0\n",
    "processed.switzerland.data": "32,1,1,95,0,?,0,127,0,.7,1,?,?,1\n",
    "processed.va.data": "60,1,3,0,248,0,1,?,?,-.5,?,?,7,3\n",
}
# Patients without and with the disease at each hospital, from the documentation of the source
# (its file heart-disease.names).
DOCUMENTED = {
    "Cleveland": (164, 139),
    "Budapest": (188, 106),
    "Switzerland": (8, 115),
    "Long Beach": (51, 149),
}


@pytest.fixture
def sample(tmp_path):
    """The data of the sample, read from files."""
    paths = [tmp_path / name for name in heart._HOSPITALS]
    for path in paths:
        path.write_text(SAMPLE[path.name])
    return heart._read(paths)


def test_sample_is_read_as_numbers_with_nan_where_a_value_is_missing(sample):
    """A question mark is missing, and so is a cholesterol or a pressure of zero."""
    nan = np.nan
    expected = [
        [63, 1, 1, 145, 233, 1, 2, 150, 0, 2.3, 3, 0, 6],
        [67, 1, 4, 160, 286, 0, 2, 108, 1, 1.5, 2, 3, 3],
        [29, 1, 2, 140, nan, 0, 0, 170, 0, 0, nan, nan, nan],
        [32, 1, 1, 95, nan, nan, 0, 127, 0, 0.7, 1, nan, nan],
        [60, 1, 3, nan, 248, 0, 1, nan, nan, -0.5, nan, nan, 7],
    ]
    np.testing.assert_array_equal(sample.X, expected)
    assert sample.y.tolist() == [0, 1, 0, 1, 1]
    hospitals = ["Cleveland", "Cleveland", "Budapest", "Switzerland", "Long Beach"]
    assert sample.hospital.tolist() == hospitals


def test_frame_has_words_for_categories_and_none_where_one_is_missing(sample):
    """Numbers stay numbers."""
    pytest.importorskip("pandas")
    frame = sample.to_frame()
    assert frame["cp"].tolist() == [
        "typical angina",
        "asymptomatic",
        "atypical angina",
        "typical angina",
        "non-anginal",
    ]
    assert frame["slope"].tolist() == ["down", "flat", None, "up", None]
    assert frame["age"].tolist() == [63, 67, 29, 32, 60]
    assert list(frame.columns) == list(sample.feature_names)


def test_whole_data_have_the_documented_numbers_of_patients():
    """Ill and not ill, hospital by hospital."""
    data = heart_disease()
    counts = {
        name: tuple(np.bincount(data.y[data.hospital == name]).tolist()) for name in DOCUMENTED
    }
    assert counts == DOCUMENTED


def test_categories_name_every_code_that_occurs():
    """And no other code: levels are those of the data."""
    data = heart_disease()
    for name, words in data.categories.items():
        column = data.X[:, data.feature_names.index(name)]
        assert set(column[~np.isnan(column)].tolist()) == set(words)


def test_files_are_those_of_the_source_and_need_no_variable_and_no_package(tmp_path):
    """By the checksums of data/README.md, in an empty folder, with NumPy alone."""
    code = """
import sys
sys.modules.update(dict.fromkeys(["pooch", "pandas", "sklearn"]))
from fgmp.datasets import heart_disease
from fgmp.cli import main
print(len(heart_disease().y))
main(["data", "list"])
"""
    variables = {name: value for name, value in os.environ.items() if name != "FGMP_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=variables | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("920\n")
    assert done.stdout.count("missing") == 3
    assert f"folder: {tmp_path / '.cache' / 'fgmp'} (" in done.stdout
    table = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for name in heart._HOSPITALS:
        content = (heart._FOLDER / name).read_bytes()
        assert f"`{hashlib.sha256(content).hexdigest()}`" in table
