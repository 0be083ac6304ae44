"""At a hospital: sign an app whose code was read, so that the hospital's node runs it, and nothing else.

    sign.py APP.fab KEY NAME

It writes APP.fab.NAME.json beside the app, which goes to the server.
"""

import json
import sys
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from time import time

from cryptography.hazmat.primitives.serialization import load_ssh_private_key

app, key, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
signed_at = int(time())
signature = load_ssh_private_key(key.read_bytes(), None).sign(
    signed_at.to_bytes(8, "big")
    + sha256(app.read_bytes()).digest()  # what a node of Flower verifies
)
text = urlsafe_b64encode(signature).rstrip(b"=").decode()
record = {"public_key_id": name, "signature": text, "signed_at": signed_at}
Path(f"{app}.{name}.json").write_text(json.dumps(record))
