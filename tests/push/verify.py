"""Verifies notifications from the standard input with each of their keys.

A notification that was changed must not be accepted.
"""

import base64
import json
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError


def verify_asymmetric(key, headers, body):
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
    version, signature = headers["webhook-signature"].split(",")
    assert version == "v1a", version
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{body}"
    public.verify(base64.b64decode(signature), signed.encode())


def verify(key, headers, body):
    if key.startswith("whpk_"):
        verify_asymmetric(key, headers, body)
    else:
        assert Webhook(key).verify(body, headers) == json.loads(body)


def is_accepted(key, headers, body):
    try:
        verify(key, headers, body)
    except (WebhookVerificationError, InvalidSignature):
        return False
    return True


for case in json.load(sys.stdin):
    headers, body = case["headers"], case["body"]
    assert case["keys"]
    for key in case["keys"]:
        verify(key, headers, body)
        assert not is_accepted(key, headers, body + " ")
        assert not is_accepted(key, headers | {"webhook-id": "another"}, body)
