"""At the server: hands an app and its signatures to the SuperLink beside it, in the place of Flower's Hub.

    shelf.py FOLDER [PORT]

The folder holds one app, APP.fab, and what hospitals signed of it. Nobody has to trust what stands here: a hospital's
node checks the signature of the bytes that it gets.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

folder, port = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8444


class Shelf(BaseHTTPRequestHandler):
    """POST asks where an app is, and who signed it; GET has its bytes."""

    def do_POST(self):
        (app,) = folder.glob("*.fab")
        signed = [
            json.loads(path.read_text()) for path in sorted(folder.glob(f"{app.name}.*.json"))
        ]
        where = {"fab_url": f"http://127.0.0.1:{port}/{app.name}", "verifications": signed}
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


HTTPServer(("127.0.0.1", port), Shelf).serve_forever()
