"""Posts orders. Each request has an idempotency key, so repeating it never stores a message twice."""

import sys
import uuid

from api import QUEUE, call

count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
for number in range(1, count + 1):
    message = {"body": {"order": number}, "ttl": 86400}
    key = {"Idempotency-Key": str(uuid.uuid4())}
    posted = call("POST", f"{QUEUE}/messages", {"messages": [message]}, key)
    print(f"posted order {number} as {posted['resources'][0]}", flush=True)
