"""At the server: Flower's SuperLink, with an app and its signatures, for hospitals' nodes alone.

    superlink.py FOLDER [OPTIONS OF flower-superlink]

The SuperLink has one port for nodes, which prove who they are, and for whoever registers keys and
starts runs, whom it asks for nothing, and whose app it executes. Here it answers other machines
only what nodes ask.

It would look for signed apps in Flower's Hub. A shelf replaces the Hub, so that nothing leaves this
network: FOLDER holds one app, APP.fab, and what hospitals signed of it. Nobody has to trust what
stands there, because a hospital's node checks the signature of the bytes that it gets.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import uvicorn
from starlette.responses import PlainTextResponse

LOOPBACK = "127.0.0.1"
OF_NODES = "/v1/fleet/"

folder = Path(sys.argv.pop(1))


class Shelf(BaseHTTPRequestHandler):
    """POST asks where an app is, and who signed it; GET has its bytes."""

    def do_POST(self):
        (app,) = folder.glob("*.fab")
        signed = [
            json.loads(path.read_text()) for path in sorted(folder.glob(f"{app.name}.*.json"))
        ]
        where = {"fab_url": f"{address}/{app.name}", "verifications": signed}
        self.send(json.dumps(where).encode(), "application/json")

    def do_GET(self):
        (app,) = folder.glob("*.fab")
        self.send(app.read_bytes(), "application/octet-stream")

    def send(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def gated(app):
    """Return a web application that refuses other machines what is not for nodes."""

    async def answer(scope, receive, send):
        is_for_nodes = scope["type"] == "lifespan" or scope["path"].startswith(OF_NODES)
        if is_for_nodes or scope["client"][0] == LOOPBACK:
            await app(scope, receive, send)
        else:
            refusal = PlainTextResponse("This is answered on the server's own machine alone.", 403)
            await refusal(scope, receive, send)

    return answer


def run_gated(app, **options):
    """Do what `uvicorn.run` does, behind the gate."""
    run(gated(app), proxy_headers=False, **options)


shelf = HTTPServer((LOOPBACK, 0), Shelf)
address = f"http://{LOOPBACK}:{shelf.server_port}"
Thread(target=shelf.serve_forever, daemon=True).start()

run, uvicorn.run = uvicorn.run, run_gated
os.environ["FLWR_SUPERGRID_API_URL"] = address  # which Flower reads as it is imported
from flwr.superlink.cli import flower_superlink  # noqa: E402

flower_superlink()
