"""ERRATA.md: weights, links, labels and lines. The paper is not in the repository; FGMP_PAPER may name its source."""

import os
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
ERRATA = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
WEIGHTS = {
    "misprint",
    "gap in the proof",
    "hypothesis missing",
    "statement false",
    "statement weaker than it could be",
    "silence",
}
ENTRY = re.compile(r"^\*\*(\d+)\. ([^*]+)\*\* · ([\d, ]+?)(?: \(([^)]+)\))? · \*([^*]+)\*<br>$", re.M)
SHOWN = re.compile(r"\[(\d\d)\]\(notebooks/(\w+)\.ipynb\), \"([^\"]+)\"")

# What stands in the lines that ERRATA.md names: fragments of formulas, by which a shifted number is noticed.
LINES = {
    267: "(a_k,b_k)",
    279: r"f_i(x_1) - f_i(x_2)",
    287: r"\| \nabla g_{i,j}(x_1) - \nabla  g_{i,j} (x_2) \|_2",
    296: r"\Gamma \in [d]",
    298: r"\mathcal{H}_\tau(w)",
    332: r"\le \sigma^2_i",
    338: "may not hold",
    341: r"\ref{assumption:main_assumptions}",
    372: r"\Lambda = \emptyset",
    390: r"\argmin{x} f_i(x)",
    394: r"x_{t,k+1}^{(i)} = P_{\Lambda}",
    400: r"\Lambda_s = $",
    417: r"(1 + \eta_2)^2",
    433: r"\beta_1(i)",
    434: r"\xi_1(i)",
    447: r"\eta_1^2 \rho^-_{4\tau}(i)",
    458: r"P^\perp_{\widehat{\Gamma}} x^{(i)}_{t,k}  = 0",
    487: r"\|P_{\Gamma} g_{i,j_k}",
    495: r"\over 2 \eta_1}",
    518: r"3 \mathbb{E}_{j_k}",
    521: r"(\rho^{+}_\tau(i,j_k))^2 \|x^{(i)}_{t,k}  - x^* \|_2^2",
    569: r"\|\Delta - y  \|",
    573: r"{\rho^-_{4\tau}(i) \over 2}  \|\Delta - z  \|_2^2",
    575: r"\|P_{\Gamma} g_{i,j_k}",
    578: r"u = \mathbb{E}_{j_k} \|\Delta - z\|_2",
    580: "c =&",
    597: r"P_\Gamma \Delta \|_2^2",
    599: r"{2c \over a} + {8b^2 \over a^2}",
    604: r"\|P_{\Gamma} g_{i,j_k}",
    615: r"- \eta_1^2 \rho^-_{4\tau}(i)",
    624: r"$\rho^-_{4\tau}(i)$",
    629: r"(2 \eta_3^2 + 2) \nu",
    637: r"\beta_1(i) = {",
    638: r"\eta_1^2 \rho^-_{4\tau}(i)",
    677: r"\kappa < 1",
    687: r"\beta^2 \|P_{\Omega}",
    692: r"2(1+ \beta^2)",
    701: r"\sqrt{\tau \log n \over N|D|}",
    728: r"(2 \eta_3^2 + 2)",
    731: r"\le  (2 \eta_3^2 + 2)   \sum_{",
    808: r"+ \nu",
    831: r"{\nu (1 - \mu(i)^K) \over 1 - \mu(i)}",
    858: r"\mathbb{E} f(x_{t+1})",
    860: r"\bar{\rho}^{+{(i)}}_\tau",
    862: "Lemma",
    880: "subset $S_t$",
    896: r"\delta$",
    902: "Optional projection onto a ball",
    908: r"\sum_{i=1}^N p_i",
    924: r"$\tau$-dimensional",
    927: r"$\rho^-_\tau(i)$",
    928: r"\le \delta^2",
    929: "number of steps",
    931: r"|D_i| \left(",
    933: r"|D_i|  + {",
    936: r"$\tau$-dimensional",
    943: r"(\nu + \delta^2)",
    949: r"$\nu$ are the same",
    969: r"(1 - \mu^K)",
    973: r"\max_{\substack{ S",
    974: r"\mu =  \max_{i \in [N]}",
    982: r"{1 \over L} \sum\limits_{i=1}^N",
    984: r"{1 \over L} \sum\limits_{i=1}^N",
    992: r"$\kappa$",
    1006: r"u \in \R^N",
    1015: r"\eqref{eq:main_problem_constrained}",
    1020: r"P_{\Lambda_s}",
    1021: r"P_{\Lambda_s}",
    1025: "convex combination",
    1045: r"c \|w-z\|_2^2",
    1047: "at least",
    1051: "new loss function",
    1057: r"A\in\R^{m\times n}",
    1064: r"\log (n/\tau)",
    1076: r"\tau \log (n/\tau)}",
    1083: r"\tau \log (n/\tau)}",
    1085: r"1 + \delta_{\tau}",
    1089: r"$\|x\| \le r$",
    1091: r"{1 \over 1+\exp(z)}",
    1100: r"sigmoid function $\tau$",
    1106: r"A^TB^T",
    1119: r"$\|x\|_2 \le r$",
    1123: r"$\tau$-sparse classifier",
    1127: r"\ln \left(\exp \left( \sum",
    1131: r"{1 \over l}",
    1134: r"1+ \sum_{i=1}^K \exp(b_i^T x)",
    1137: r"(1+K\exp(2 r))^2",
    1139: r"$\|x\| \le r$",
    1160: r"\|D_i|",
    1161: r"\mathcal{N}(\alpha, 0)",
    1168: "validating",
    1169: "Gaussian noise",
    1193: r"$30 \times 76800$",
    1217: "0.005",
    1223: "gradient descent",
    1284: r"28 \times 28 = 784",
    1287: "$40$",
    1289: r"\ln \left(\exp \left( \sum",
    1312: r"$200 \times 784$",
    1339: r"\|D_i|",
    1376: "rounds",
    1385: r"$\alpha = 2.5$",
    1386: r"$3, 6, 9, 12, 15$",
    1417: "$10, 15, 20, 25, 30$",
    1420: "right panels (noisy case)",
    1433: "noiseless",
    1457: r"\rho^{+}_\tau(i,j)  \over 2",
    1467: r"{\rho\over 2}",
    1470: r"{1\over 2\rho}",
    1487: r"R(D_{\widehat{\Gamma}})",
    1495: r"t,K-1}",
    1497: r"2 \delta^2",
    1505: "selected participating clients",
    1513: r"{1 \over L}",
    1515: "& = (2",
    1525: r"\zeta_*^2",
    1531: r"\zeta_*^2",
    1532: r"\sum_{i \in I_t} {1 \over L}",
    1543: r"(1 - \mu^K) \over 1 - \mu",
    1558: r"{1 \over L} \sum\limits_{i=1}^N",
    1592: r"\mathbb{E}_{j} \bar{\rho}^{+(i)}_{4\tau} \|x  - x^* \|_2^2",
    1609: r"(2\eta_1^2 -1)",
    1611: r"15\sqrt{\eta_1^2-1}",
    1617: r"\ref{lem:GradMP_lem3_without_bounded_variance}",
    1623: r"{\theta^2 \over 2} \|\nabla",
    1625: r"{\bar{\rho}^{+(i)}_{4\tau} \over 2}",
    1629: r"{\bar{\rho}^{+(i)}_{4\tau}",
    1641: "&= 3",
    1647: r"{\bar{\rho}^{+(i)}_{4\tau} \over 2}",
    1654: r"\rho^{+}_\tau(i,j_k))^2",
    1657: r"\| \Delta -z \|_2",
    1660: r"\Delta - y",
    1663: r"over 2} +  {1 \over 2\theta^2}",
    1669: r"\Delta - y",
    1673: r"\Delta - P_\Gamma \Delta",
    1679: r"{\sqrt{\eta_1^2-1} \over \eta_1}",
    1680: r"&\qquad {8 \over",
    1695: r"\kappa",
    1701: r"{\sqrt{\eta_1^2-1} \over \eta_1}",
    1706: r"{2\theta^2 }",
}


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def section(title):
    return ERRATA.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title):
    """Cells of the table in a section, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def lines_named():
    named = [number for entry in ENTRY.finditer(ERRATA) for number in numbers(entry[3])]
    for title in ("Misprints", "Silences, and what we chose"):
        named += [number for row in rows(title) for number in numbers(row[0])]
    named += [int(n) for n in re.findall(r"^- \*\*.*\(.*?(\d{3,4})\)", section("Better than claimed"), re.M)]
    for several in re.findall(r"\blines?\s+(\d{3,4}(?:(?:, | and )\d{3,4})*)", ERRATA):
        named += numbers(several)
    return sorted(set(named))


def labels_named():
    heads = " ".join(entry[4] or "" for entry in ENTRY.finditer(ERRATA)) + section("Better than claimed")
    return set(re.findall(r"`([a-zA-Z]+:[^`]+)`", heads))


def test_entries_are_counted_and_have_a_weight():
    entries = list(ENTRY.finditer(ERRATA))
    assert [int(entry[1]) for entry in entries] == list(range(1, len(entries) + 1))
    assert len(entries) == len(re.findall(r"^\*\*\d+\.", ERRATA, re.M))
    assert {entry[5] for entry in entries} <= WEIGHTS
    assert set(re.findall(r"^- \*([^*]+)\*:", ERRATA, re.M)) == WEIGHTS


def test_tables_are_whole():
    for title in ("Misprints", "Silences, and what we chose"):
        table = rows(title)
        assert table
        assert [row for row in table if len(row) != 3 or not re.match(r"\d", row[0])] == []


def test_every_section_named_exists():
    shown = SHOWN.findall(ERRATA)
    assert len(shown) >= 20
    for number, name, heading in shown:
        assert name.startswith(number)
        cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert heading in re.findall(r"^##+ (.+)$", text, re.M), f"{name} has no section {heading!r}"


def test_every_line_named_has_its_fragment():
    assert lines_named() == sorted(LINES)


@pytest.mark.skipif("FGMP_PAPER" not in os.environ, reason="FGMP_PAPER does not name the source of the paper")
def test_lines_and_labels_are_those_of_the_paper():
    text = Path(os.environ["FGMP_PAPER"]).read_text(encoding="utf-8")
    paper = text.splitlines()
    assert len(paper) == 1713
    assert {n: fragment for n, fragment in LINES.items() if not fragment or fragment not in paper[n - 1]} == {}
    assert labels_named() <= set(re.findall(r"\\label\{([^}]+)\}", text))
