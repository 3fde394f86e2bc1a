// Verifies notifications from the standard input with each of their keys. A notification that was
// changed must not be accepted.

import assert from "node:assert";
import crypto from "node:crypto";
import fs from "node:fs";
import { Webhook } from "standardwebhooks";

function verifyAsymmetric(key, headers, body) {
  const x = Buffer.from(key.replace("whpk_", ""), "base64").toString("base64url");
  const publicKey = crypto.createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const [version, signature] = headers["webhook-signature"].split(",");
  assert.equal(version, "v1a");
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  assert(crypto.verify(null, Buffer.from(signed), publicKey, Buffer.from(signature, "base64")));
}

function verify(key, headers, body) {
  if (key.startsWith("whpk_")) {
    verifyAsymmetric(key, headers, body);
  } else {
    assert.deepEqual(new Webhook(key).verify(body, headers), JSON.parse(body));
  }
}

for (const { headers, body, keys } of JSON.parse(fs.readFileSync(0, "utf8"))) {
  assert(keys.length > 0);
  for (const key of keys) {
    verify(key, headers, body);
    assert.throws(() => verify(key, headers, body + " "));
    assert.throws(() => verify(key, { ...headers, "webhook-id": "another" }, body));
  }
}
