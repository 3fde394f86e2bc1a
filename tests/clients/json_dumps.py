"""Prints the MD5 of the output of `json.dumps` for each line of JSON on stdin."""

import hashlib
import json
import sys

for line in sys.stdin.buffer:
    print(hashlib.md5(json.dumps(json.loads(line)).encode()).hexdigest())
