"""Claims orders and deletes each when it is done. Orders that a worker does not finish become available to others."""

import sys

from api import QUEUE, call

left = int(sys.argv[1]) if len(sys.argv) > 1 else None
while left is None or left > 0:
    # The answer comes as soon as there is an order, or is empty after 20 seconds.
    limit = 5 if left is None else min(left, 5)
    claim = call("POST", f"{QUEUE}/claims?limit={limit}&wait=20", {"ttl": 60, "grace": 60})
    if claim is None and left is not None:
        print(f"there are no more orders: {left} are missing")
        break
    for message in claim["messages"] if claim else []:
        print(f"doing order {message['body']['order']}", flush=True)
        # The path names the claim: only its holder can delete the message.
        call("DELETE", message["href"])
        left = left and left - 1
