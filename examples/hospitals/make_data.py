"""Three made-up hospitals of different size, each with a CSV of its own, and a table of new patients.

    python make_data.py [FOLDER]

The stay depends on age, C-reactive protein, creatinine and lactate, and on nothing else; each hospital's patients are
of another age and have another heart rate.
"""

import csv
import sys
from pathlib import Path

import numpy as np

COLUMNS = {
    "age": (60, 15),
    "bmi": (27, 5),
    "heart_rate": (85, 15),
    "temperature": (37.2, 0.8),
    "sodium": (139, 4),
    "potassium": (4.2, 0.5),
    "creatinine": (1.1, 0.4),
    "haemoglobin": (12.5, 2),
    "platelets": (250, 80),
    "glucose": (120, 40),
    "crp": (60, 50),
    "lactate": (1.8, 0.9),
}
EFFECTS = {"age": 0.06, "crp": 0.03, "creatinine": 2.5, "lactate": 1.2}
HOSPITALS = {"north": 180, "coast": 90, "valley": 45}


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for place, (name, count) in enumerate({**HOSPITALS, "new": 10}.items()):
        shift = np.zeros(len(COLUMNS))
        shift[[0, 2]] = 5.0 * place
        table = np.array([mean for mean, _ in COLUMNS.values()]) + shift
        table = table + rng.standard_normal((count, len(COLUMNS))) * [spread for _, spread in COLUMNS.values()]
        days = table @ [EFFECTS.get(column, 0.0) for column in COLUMNS] - 2 + 0.5 * rng.standard_normal(count)
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*COLUMNS, *([] if name == "new" else ["days"])])
            for row, stay in zip(table.round(3), days.round(3), strict=True):
                writer.writerow([*row, *([] if name == "new" else [stay])])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "data"))
