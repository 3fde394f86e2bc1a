"""Reads every order once, from the oldest. A new process would continue after the last marker that was saved."""

import sys

from api import QUEUE, call

left = int(sys.argv[1]) if len(sys.argv) > 1 else None
marker = ""
while left is None or left > 0:
    limit = 10 if left is None else min(left, 10)
    page = call("GET", f"{QUEUE}/messages?echo=true&include_claimed=true&limit={limit}&wait=20{marker}")
    if not page["messages"] and left is not None:
        print(f"there are no more orders: {left} are missing")
        break
    for message in page["messages"]:
        print(f"saw order {message['body']['order']}", flush=True)
        marker = f"&marker={message['id']}"
        left = left and left - 1
