"""A verification function for Standard Webhooks in Python, and around it a command for `hookproof receiver --exec`.

    hookproof receiver --exec 'python3 verify.py' --secret-env HOOK_SECRET

The command reads one raw HTTP request from stdin, and the secret from HOOK_SECRET. Exit code 0: genuine; 1: not genuine.
"""

import base64
import hashlib
import hmac
import os
import re
import sys
import time

TOLERANCE_SECONDS = 300


def genuine(headers, body, key):
    """`headers` has a list of values for each name in lower case; all are bytes."""

    def one(name, form):
        values = headers.get(name, [])
        return values[0] if len(values) == 1 and re.fullmatch(form, values[0]) else None

    # Visible ASCII. A dot separates the signed parts, so none may be in an id.
    message = one(b"webhook-id", rb"[\x21-\x2d\x2f-\x7e]{1,256}")
    timestamp = one(b"webhook-timestamp", rb"[1-9][0-9]{0,14}")
    signatures = one(b"webhook-signature", rb"[\x20-\x7e]+")
    if message is None or timestamp is None or signatures is None:
        return False
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    tag = hmac.new(key, message + b"." + timestamp + b"." + body, hashlib.sha256).digest()
    # Compared as written, so that another spelling of the same bytes is refused.
    expected = b"v1," + base64.b64encode(tag)
    return any(hmac.compare_digest(signature, expected) for signature in signatures.split(b" "))


def parsed(request):
    head, _, body = request.partition(b"\r\n\r\n")
    headers = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        headers.setdefault(name.lower(), []).append(value.strip(b" \t"))
    return headers, body


if __name__ == "__main__":
    secret = base64.b64decode(os.environ["HOOK_SECRET"].removeprefix("whsec_"), validate=True)
    sys.exit(0 if genuine(*parsed(sys.stdin.buffer.read()), secret) else 1)
