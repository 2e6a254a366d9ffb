"""Makes the vectors that come from Python: what public libraries sign, and what they say of requests with one flaw.

    python3 -m venv venv && venv/bin/pip install standardwebhooks stripe
    venv/bin/python scenarios/vectors/generate/libraries.py

The files are data of the repository; this script is kept to show where they come from, and nothing runs it in a build.
"""

import base64
import hashlib
import hmac
import json
import pathlib
from datetime import datetime, timezone
from importlib.metadata import version
from unittest import mock

import standardwebhooks.webhooks as standardwebhooks
import stripe

PLACE = pathlib.Path(__file__).resolve().parent.parent
NOW = 1_700_000_000
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
OTHER = "whsec_b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI="
BODIES = {
    "an-event": '{"id":"evt_1","type":"video.trending","data":{"views":1200000}}',
    "whitespace-and-doubled-keys": '{ "id" : "evt_1",\n\t"a" : 1.0, "a":1e2 }\n',
    "text-beyond-ascii": '{"id":"evt_1","title":"caf\u00e9 \U0001f680 \\u00e9"}',
    "large-numbers": '{"id":"evt_1","n":12345678901234567890123,"m":-0.0}',
}


def standard_accepts(vector):
    """What the library says, at the moment that the vector is about."""
    at = datetime.fromtimestamp(vector["now"], tz=timezone.utc)
    try:
        with mock.patch.object(standardwebhooks, "datetime", wraps=datetime) as clock:
            clock.now.return_value = at
            webhook = standardwebhooks.Webhook(vector["secrets"][0])
            webhook.verify(vector["body"], dict(map(tuple, vector["headers"])), json_parse=False)
        return True
    except Exception:
        return False


def stripe_accepts(vector):
    with mock.patch("stripe._webhook.time.time", return_value=vector["now"]):
        try:
            header = dict(map(tuple, vector["headers"]))["stripe-signature"]
            return stripe.WebhookSignature.verify_header(vector["body"], header, vector["secrets"][0], 300)
        except Exception:
            return False


def vector(name, profile, headers, body, valid=True, rule=None, now=NOW, signed_at=NOW, secrets=(SECRET,), id="evt_1"):
    made = {"name": name, "profile": profile, "secrets": list(secrets), "now": now, "headers": headers, "body": body,
            "valid": valid}
    return made | ({"id": id, "signed_at": signed_at} if valid else {"rule": rule})


def write(name, source, vectors, accepts=None):
    for one in vectors:
        if accepts and one["valid"]:
            assert accepts(one), f"{name}: {one['name']}: the library refuses its own signature"
        elif accepts:
            one["library_accepts"] = accepts(one)
    text = json.dumps({"format": 1, "source": source, "vectors": vectors}, indent=2, ensure_ascii=True)
    (PLACE / name).write_text(text + "\n")


def standard():
    at = datetime.fromtimestamp(NOW, tz=timezone.utc)

    def signed(body, id="evt_1", secret=SECRET):
        return standardwebhooks.Webhook(secret).sign(id, at, body)

    def headers(signature, id="evt_1", timestamp=str(NOW)):
        return [["webhook-id", id], ["webhook-timestamp", timestamp], ["webhook-signature", signature]]

    profile, body = "standard-webhooks", BODIES["an-event"]
    good = signed(body)
    encoded = good.removeprefix("v1,")
    valid = [vector(name, profile, headers(signed(body)), body) for name, body in BODIES.items()]
    valid += [
        vector("second-of-two-signatures", profile, headers(signed(body, secret=OTHER) + " " + good), body),
        vector("as-old-as-allowed", profile, headers(good), body, now=NOW + 300),
        vector("as-early-as-allowed", profile, headers(good), body, now=NOW - 300),
    ]
    flaws = {
        "another-secret": (headers(signed(body, secret=OTHER)), body, "signature-wrong"),
        "another-body": (headers(good), body.replace("1200000", "1200001"), "signature-wrong"),
        "another-id": (headers(good, id="evt_2"), body, "signature-wrong"),
        "another-timestamp": (headers(good, timestamp=str(NOW + 1)), body, "signature-wrong"),
        "truncated": (headers(good[:11]), body, "signature-malformed"),
        "hex-for-base64": (headers("v1," + base64.b64decode(encoded).hex()), body, "signature-malformed"),
        "junk-inside-base64": (headers("v1," + encoded[:10] + "*" + encoded[10:]), body, "signature-malformed"),
        "padding-too-long": (headers(good + "="), body, "signature-malformed"),
        "unknown-version": (headers("v2," + encoded), body, "signature-none"),
        "asymmetric-version-with-hmac": (headers("v1a," + encoded), body, "signature-none"),
        "timestamp-with-a-fraction": (headers(good, timestamp=f"{NOW}.0"), body, "timestamp-malformed"),
        "timestamp-with-a-sign": (headers(good, timestamp=f"+{NOW}"), body, "timestamp-malformed"),
        "timestamp-with-a-zero-in-front": (headers(good, timestamp=f"0{NOW}"), body, "timestamp-malformed"),
        "timestamp-not-a-number": (headers(good, timestamp="nan"), body, "timestamp-malformed"),
        "id-with-a-point": (headers(signed(body, id="evt.1"), id="evt.1"), body, "id-malformed"),
        "empty-signature": (headers(""), body, "header-empty"),
        "no-signature": (headers(good)[:2], body, "header-missing"),
    }
    invalid = [vector(name, profile, head, body, False, rule) for name, (head, body, rule) in flaws.items()]
    invalid += [
        vector("too-old", profile, headers(good), body, False, "timestamp-old", now=NOW + 301),
        vector("too-early", profile, headers(good), body, False, "timestamp-ahead", now=NOW - 301),
    ]
    source = f"PyPI standardwebhooks {version('standardwebhooks')}: Webhook.sign, and what Webhook.verify says"
    write("standardwebhooks-python.json", source, valid + invalid, standard_accepts)


def from_stripe():
    def signed(body, secret=SECRET, at=NOW):
        return stripe.WebhookSignature._compute_signature(f"{at}.{body}", secret)

    def headers(text):
        return [["stripe-signature", text]]

    profile, body = "stripe", BODIES["an-event"]
    good = signed(body)
    valid = [vector(name, profile, headers(f"t={NOW},v1={signed(body)}"), body) for name, body in BODIES.items()]
    valid += [
        vector("second-of-two-signatures", profile, headers(f"t={NOW},v1={signed(body, OTHER)},v1={good}"), body),
        vector("beside-the-scheme-of-test-events", profile, headers(f"t={NOW},v1={good},v0={signed(body, OTHER)}"), body),
        vector("as-old-as-allowed", profile, headers(f"t={NOW},v1={good}"), body, now=NOW + 300),
    ]
    flaws = {
        "another-secret": (f"t={NOW},v1={signed(body, OTHER)}", "signature-wrong"),
        "another-timestamp": (f"t={NOW + 1},v1={good}", "signature-wrong"),
        "only-the-scheme-of-test-events": (f"t={NOW},v0={good}", "signature-none"),
        "no-timestamp": (f"v1={good}", "timestamp-malformed"),
        "two-timestamps": (f"t={NOW},t={NOW},v1={good}", "timestamp-malformed"),
        "timestamp-with-a-zero-in-front": (f"t=0{NOW},v1={good}", "timestamp-malformed"),
        "truncated": (f"t={NOW},v1={good[:8]}", "signature-malformed"),
        "upper-case": (f"t={NOW},v1={good.upper()}", "signature-malformed"),
    }
    invalid = [vector(name, profile, headers(text), body, False, rule) for name, (text, rule) in flaws.items()]
    invalid += [
        vector("another-body", profile, headers(f"t={NOW},v1={good}"), body + " ", False, "signature-wrong"),
        vector("too-old", profile, headers(f"t={NOW},v1={good}"), body, False, "timestamp-old", now=NOW + 301),
        # The library looks to the past only.
        vector("too-early", profile, headers(f"t={NOW},v1={good}"), body, False, "timestamp-ahead", now=NOW - 301),
    ]
    source = f"PyPI stripe {version('stripe')}: WebhookSignature"
    write("stripe-python.json", source, valid + invalid, stripe_accepts)


def plain():
    """The profiles that no library has, by Python's own hmac."""

    def tag(content):
        return hmac.new(SECRET.encode(), content.encode(), hashlib.sha256).hexdigest()

    def timestamped(signature, timestamp=str(NOW)):
        return [["x-vvv-timestamp", timestamp], ["x-vvv-signature", signature]]

    def frozen(signature, id="evt_1"):
        return [["x-vvv-signature", signature], ["x-vvv-event", "video.trending"], ["x-vvv-attempt", "1"],
                ["x-vvv-delivery-id", id], ["x-vvv-subscriber", "sub_1"]]

    body = BODIES["an-event"]
    vectors = []
    for name, text in BODIES.items():
        vectors.append(vector(f"timestamped-{name}", "vvv-timestamped", timestamped("sha256=" + tag(f"{NOW}.{text}")), text))
        vectors.append(vector(f"frozen-{name}", "vvv-frozen", frozen(tag(text)), text, signed_at=None))
    good = tag(f"{NOW}.{body}")
    flaws = {
        "over-the-body-alone": (timestamped("sha256=" + tag(body)), "signature-wrong"),
        "without-its-algorithm": (timestamped(good), "signature-none"),
        "another-algorithm": (timestamped("sha1=" + good), "signature-none"),
        "upper-case": (timestamped("sha256=" + good.upper()), "signature-malformed"),
        "one-digit-short": (timestamped("sha256=" + good[:-1]), "signature-malformed"),
        "timestamp-with-blanks": (timestamped("sha256=" + good, f"{NOW} "), "timestamp-malformed"),
        "timestamp-in-milliseconds": (timestamped("sha256=" + tag(f"{NOW}000.{body}"), f"{NOW}000"), "timestamp-ahead"),
    }
    vectors += [vector(f"timestamped-{name}", "vvv-timestamped", head, body, False, rule)
                for name, (head, rule) in flaws.items()]
    flaws = {
        "another-body": (frozen(tag(body + " ")), "signature-wrong"),
        "in-base64": (frozen(base64.b64encode(bytes.fromhex(tag(body))).decode()), "signature-malformed"),
        "with-an-algorithm": (frozen("sha256=" + tag(body)), "signature-malformed"),
        "without-its-id": ([pair for pair in frozen(tag(body)) if pair[0] != "x-vvv-delivery-id"], "header-missing"),
    }
    vectors += [vector(f"frozen-{name}", "vvv-frozen", head, body, False, rule) for name, (head, rule) in flaws.items()]
    # Bytes that are no text: the body is given in base64.
    raw = b'{"id":"evt_1","data":"\xff\xfe"}'
    frozen_raw = hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
    made = vector("frozen-not-utf-8", "vvv-frozen", frozen(frozen_raw), None, signed_at=None)
    del made["body"]
    vectors.append(made | {"body_base64": base64.b64encode(raw).decode()})
    write("python-hmac.json", "Python's hmac module, by the description of the two profiles", vectors)


standard()
from_stripe()
plain()
