"""One function that calls Sukkal, and tries again while the service or its store is not available."""

import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("SUKKAL_URL", "http://127.0.0.1:8888")
QUEUE = "/v2/queues/orders"
# A process that handles messages under its own name gives itself a UUID of its own.
HEADERS = {"Client-ID": "3381af92-2b9e-11e3-b191-71861300734c", "X-Project-ID": "demo"}
# Whether the service has answered before. Then it is only restarting, and a request is tried again.
has_answered = False


def call(method, path, body=None, headers=None):
    """Returns the decoded answer, or None if the answer has no body."""
    global has_answered
    data = None if body is None else json.dumps(body).encode()
    headers = {**HEADERS, "Content-Type": "application/json", **(headers or {})}
    while True:
        request = urllib.request.Request(URL + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                has_answered = True
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            has_answered = True
            if error.code != 503:
                sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")
            time.sleep(float(error.headers.get("Retry-After", 1)))
        except OSError as error:
            away = f"Sukkal does not answer at {URL}: {getattr(error, 'reason', error)}"
            if not has_answered:
                sys.exit(f"{away}. Start it with `make run`, or set SUKKAL_URL.")
            print(f"{away}. Trying again.", file=sys.stderr)
            time.sleep(1)
