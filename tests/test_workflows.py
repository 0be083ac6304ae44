"""Workflows on GitHub: pinned actions, checkouts without credentials, and permissions of jobs."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_pins_actions_and_limits_permissions(path):
    """By commit, with the version as a comment; checkouts keep no credentials."""
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {}
    # Publishing needs a token of the workflow, and for the site the right to write it.
    publishes = {"id-token": "write"}
    if path.stem == "site":
        publishes["pages"] = "write"
    for name, job in workflow["jobs"].items():
        assert job["permissions"] == (publishes if name == "publish" else {"contents": "read"})
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(
                r"(actions/[a-z-]+|pypa/gh-action-pypi-publish)@[0-9a-f]{40}", step["uses"]
            ), step
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    pins = re.findall(r"uses: .*", path.read_text())
    assert all(re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", pin) for pin in pins)


def test_nightly_commands_are_targets_of_make():
    """`make` offers what runs every night."""
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    commands = [
        step["run"] for job in nightly["jobs"].values() for step in job["steps"] if "run" in step
    ]
    assert commands == ["make mutants", "make plays", "make soak", "make audit"]
    recipes = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {command.split()[1] for command in commands} <= set(recipes)
