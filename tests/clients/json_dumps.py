"""For each line of JSON on stdin, the MD5 of what `json.dumps` makes of it."""

import hashlib
import json
import sys

for line in sys.stdin.buffer:
    print(hashlib.md5(json.dumps(json.loads(line)).encode()).hexdigest())
