"""examples/hospitals in deployment mode on loopback: TLS, keys, signed apps, and a kill.

One deployment serves all tests of this module, which go through the README from its tables to its
predictions.
"""

import contextlib
import csv
import http.client
import os
import shutil
import signal
import ssl

import numpy as np
import pytest
from deployment import EXAMPLE, HOSPITALS, PORTS, Deployment, block_of_readme, is_open

import fgmp

# An app of somebody who may start a run: its clients send the file that they can read.
THIEVES = {
    "client": """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()
@app.query()
def query(message, context):
    rows = open(context.node_config["data"]).read()[:5000]
    return Message(RecordDict({"stolen": ConfigRecord({"rows": rows})}), reply_to=message)
""",
    "server": """
import time
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()
@app.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 4:
        time.sleep(1)
    replies = grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes])
    replied = [
        str(r.content["stolen"]["rows"]) if r.has_content() else r.error.reason for r in replies
    ]
    with open(context.run_config["model"], "w") as file:
        file.write("|".join(replied))
""",
}
# What a node prints after each reply.
REPLIED = "Sent successfully"
REFUSED = ["The FAB could not be verified."] * 4


def training(rounds):
    """Return the command that trains, with a number of rounds, and time for each.

    A machine may be busy. A hospital that was killed is not waited for so long: Flower itself says
    that it has gone.
    """
    return f"bash deploy.sh train 'rounds={rounds} deadline=600.0'"


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """A server with a signed app, four hospitals, and a node whose key nobody has registered."""
    assert not [port for port in PORTS if is_open(port)], "something listens there"
    made = Deployment(tmp_path_factory.mktemp("deployment") / "hospitals")
    try:
        made.run("python make_data.py data && cp data/cleveland.csv data/stranger.csv")
        made.run("bash deploy.sh certificate && bash deploy.sh build")
        for name in (*HOSPITALS, *HOSPITALS, "stranger"):  # again, which leaves keys as they are
            made.run(f"bash deploy.sh key {name}")
        for name in HOSPITALS:
            made.run(f"bash deploy.sh sign {name}")
        made.start("superlink", "bash deploy.sh server")
        made.wait_for(lambda: is_open(8443))
        for name in HOSPITALS:
            made.run(f"bash deploy.sh register {name}")
        for name in (*HOSPITALS, "stranger"):
            made.start(name, f"bash deploy.sh node {name}")
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def thieves(deployment):
    """The folder of an app that sends rows."""
    folder = deployment.folder / "thieves" / "hospitals"
    shutil.copytree(EXAMPLE, folder)
    for name, code in THIEVES.items():
        (folder / "hospitals" / f"{name}.py").write_text(code)
    return folder


@pytest.fixture(scope="module")
def model_of_the_others(deployment):
    """The model of a run in which a hospital is killed after its first replies.

    They are counted in its own log: lines of the run reach us late on a machine that is idle.
    """
    n_replies = deployment.log("switzerland").count(REPLIED)
    deployment.start("run", training(rounds=2))
    deployment.wait_for(lambda: deployment.log("switzerland").count(REPLIED) >= n_replies + 4)
    os.kill(deployment.processes["switzerland"].pid, signal.SIGKILL)
    return deployment.wait_for_model("run")


@pytest.fixture(scope="module")
def model_of_all(deployment, model_of_the_others):
    """The model of a run after that, with the hospital started again."""
    log = "superlink"
    deployment.wait_for(lambda: deployment.log(log).count("Activated node_id") == 4)
    deployment.start("switzerland again", "bash deploy.sh node switzerland")
    deployment.wait_for(lambda: deployment.log(log).count("Activated node_id") > 4)
    (deployment.folder / "model.json").unlink()
    deployment.start("run again", training(rounds=1))
    return deployment.wait_for_model("run again")


def replies_to_thieves(deployment, app, name):
    """Return what the hospitals reply to a run of the app that asks for rows."""
    replies = deployment.folder / f"{name}.txt"
    line = f"flwr run {app} hospitals --stream --run-config \"model='{replies}'\""
    deployment.start(name, line)
    deployment.wait_for(replies.exists)
    deployment.wait_for(replies.read_text)
    return replies.read_text().split("|")


@pytest.mark.parametrize(
    "path, is_answered",
    [
        ("/v1/fleet/activate-node", True),
        ("/v1/control/register-node", False),
        ("/v1/control/start-run", False),
        ("/v1/runtime/acquire-task", False),
        ("//v1/control/list-runs", False),
        ("/docs", False),
    ],
)
def test_other_machines_are_answered_as_nodes_alone(deployment, path, is_answered):
    """Whoever reaches the port could otherwise register a key, and run an app on the server."""
    context = ssl.create_default_context(cafile=deployment.folder / "keys" / "ca.crt")
    connection = http.client.HTTPSConnection(
        "127.0.0.1", 8443, context=context, source_address=("127.0.0.2", 0)
    )
    claim = {"X-Forwarded-For": "127.0.0.1"}
    with contextlib.closing(connection):
        connection.request("POST", path, b"", claim)
        assert (connection.getresponse().status != 403) == is_answered


def test_app_without_signatures_is_refused_by_every_hospital(deployment, thieves):
    """An app that sends rows gets none of them."""
    assert replies_to_thieves(deployment, thieves, "unsigned") == REFUSED


def test_app_under_signatures_of_another_is_refused_by_every_hospital(deployment, thieves):
    """A signature is of the bytes of one app, whatever name another one has."""
    (signed,) = (deployment.folder / "shelf").glob("*.fab")
    kept = signed.read_bytes()
    deployment.run(f"flwr build --app {thieves} && mv hospitals.*.fab {signed}")
    try:
        app = "@hospitals/hospitals==1.0.0"
        assert replies_to_thieves(deployment, app, "falsely_signed") == REFUSED
    finally:
        signed.write_bytes(kept)


def test_run_with_a_hospital_killed_goes_on_and_names_it(deployment, model_of_the_others):
    """The others have a model of as many features as were asked for."""
    assert "; missing: switzerland" in deployment.log("run")
    assert len(model_of_the_others.support_) == 5
    assert model_of_the_others.groups_.tolist() == ["cleveland", "budapest", "long_beach"]
    assert model_of_the_others.missing_.tolist() == ["switzerland"]


def test_model_of_a_run_predicts_new_patients_from_a_csv(deployment, model_of_the_others):
    """Ten patients who are in no table of a hospital, by the formula of logistic regression."""
    printed = deployment.run(block_of_readme("fgmp predict")).splitlines()
    predicted = list(csv.DictReader(printed))
    new = np.genfromtxt(deployment.folder / "data" / "new.csv", delimiter=",", skip_header=1)
    score = new @ model_of_the_others.coef_[0] + model_of_the_others.intercept_
    risks = [float(patient["probability of ill"]) for patient in predicted]
    np.testing.assert_allclose(risks, 1 / (1 + np.exp(-score)), rtol=1e-12)
    assert len(risks) == 10
    is_ill = [patient["prediction"] == "ill" for patient in predicted]
    np.testing.assert_array_equal(is_ill, score > 0)


def test_node_without_registered_key_is_refused(deployment, model_of_the_others):
    """It receives no id, and has no part in a run."""
    is_over = deployment.processes["stranger"].poll
    deployment.wait_for(
        lambda: is_over() is not None or "not" in deployment.log("stranger").lower()
    )
    assert "SuperNode ID" not in deployment.log("stranger")


# A process for each message of each hospital takes a minute of processor time in all.
@pytest.mark.skipif("FGMP_SOAK" not in os.environ, reason="a long run, of `make soak`")
def test_run_after_the_hospital_is_back_has_the_bits_of_one_process(deployment, model_of_all):
    """A process for each message, over TLS, computes what one process does from one table."""
    assert "missing" not in deployment.log("run again")
    X, y, groups = deployment.tables()
    expected = fgmp.FedGradMPClassifier(5, rounds=1, polish=False, random_state=0).fit(X, y, groups)
    np.testing.assert_array_equal(model_of_all.coef_, expected.coef_)
