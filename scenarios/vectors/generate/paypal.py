# Makes providers/paypal.json: requests in PayPal's form, and what its own library says of them.
#
#     pip install paypalrestsdk==1.13.3 pyopenssl==23.2.0 cryptography==41.0.7     (later pyopenssl lacks the call that it verifies by)
#     python paypal.py PATH/TO/scenarios/vectors/providers PATH/TO/rsa.key PATH/TO/rsa-other.key
#
# PyCA cryptography signs, with the two keys in PEM. The library fetches a certificate and holds it against DigiCert's. Here each URL
# stands for a certificate that is made for the run, and a root of our own takes DigiCert's place.

import base64, binascii, datetime, json, sys, warnings
from urllib.parse import urlsplit

warnings.simplefilter("ignore")
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from OpenSSL import crypto
from paypalrestsdk import WebhookEvent

place, *paths = sys.argv[1:]
key, other = (serialization.load_pem_private_key(open(path, "rb").read(), None) for path in paths)
WEBHOOK = "HOOKPROOF"
HOME = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-a5cafa77"
ABROAD = "https://api.paypal.com.example.org/v1/notifications/certs/CERT-1"


def certificate(subject, public, issuer, signer):
    name = lambda text: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
    now = datetime.datetime.utcnow()
    builder = x509.CertificateBuilder(name(issuer), name(subject), public, x509.random_serial_number(),
                                      now - datetime.timedelta(1), now + datetime.timedelta(1))
    builder = builder.add_extension(x509.BasicConstraints(subject == issuer, None), True)
    return crypto.X509.from_cryptography(builder.sign(signer, hashes.SHA256()))


root = rsa.generate_private_key(65537, 2048)
paypals = "messageverificationcerts.paypal.com"
known = {HOME: certificate(paypals, key.public_key(), "root", root), ABROAD: certificate(paypals, other.public_key(), "other", other)}
store = crypto.X509Store()
store.add_cert(certificate("root", root.public_key(), "root", root))
WebhookEvent._get_cert = staticmethod(lambda url: known[HOME if urlsplit(url).hostname == "api.paypal.com" else ABROAD])
WebhookEvent._get_certificate_store = classmethod(lambda cls: store)


def sign(text, by=key, hash=hashes.SHA256()):
    return base64.b64encode(by.sign(text.encode(), padding.PKCS1v15(), hash)).decode()


def crc(body):
    return binascii.crc32(body.encode()) & 0xFFFFFFFF


def headers(body, by=key, webhook=WEBHOOK, **change):
    given = {"id": "69cd13f0-d67a-11e5-baa3-778b53f4ae55", "time": "2023-11-14T22:13:20Z", "cert-url": HOME,
             "auth-algo": "SHA256withRSA", **change}
    text = f"{given['id']}|{given['time']}|{webhook}|{crc(body)}"
    given.setdefault("sig", sign(text, by))
    return {("paypal-" if name in ("cert-url", "auth-algo") else "paypal-transmission-") + name: value
            for name, value in given.items()}


def body(**more):
    return json.dumps({"id": "WH-2WR32451HC0233532-67976317FL4543714", "event_type": "PAYMENT.SALE.COMPLETED", **more},
                      ensure_ascii=False)


def collision(wanted, front):
    """Text with the CRC-32 of another: four bytes decide it, and are drawn until they are letters."""
    table = [0] * 256
    for at in range(256):
        rest = at
        for _ in range(8):
            rest = rest >> 1 ^ (0xEDB88320 if rest & 1 else 0)
        table[at] = rest
    back = {value >> 24: at for at, value in enumerate(table)}
    for number in range(10**7):
        start = front % number
        end = '"}}'
        rest = wanted ^ 0xFFFFFFFF
        for byte in reversed(end.encode()):
            at = back[rest >> 24]
            rest = (rest ^ table[at]) << 8 & 0xFFFFFFFF | at ^ byte
        now = binascii.crc32(start.encode()) ^ 0xFFFFFFFF
        patch = []
        for _ in range(4):
            at = back[rest >> 24]
            rest = (rest ^ table[at]) << 8 & 0xFFFFFFFF | at
            patch.append(at)
        four = (rest ^ now).to_bytes(4, "little")
        if all(chr(byte).isalnum() and byte < 128 for byte in four):
            return start + four.decode() + end


vectors = []
spki = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
SECRET = f"{WEBHOOK}:{base64.b64encode(spki).decode()}"
pkcs8 = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
EVENT = body(resource={"amount": {"total": "0.48", "currency": "USD"}})


def vector(name, head, text, **rest):
    vectors.append({"name": name, "profile": "paypal", "secrets": [SECRET],
                    "private_keys": ["whsk_" + base64.b64encode(pkcs8).decode()], "now": 1_700_000_000,
                    "headers": list(map(list, head.items())), "body": text, **rest})


def valid(name, head, text):
    vector(name, head, text, valid=True, id=json.loads(text)["id"], signed_at=None)


def invalid(name, head, rule, text=EVENT, **rest):
    vector(name, head, text, valid=False, rule=rule, **rest)


valid("an-event", headers(EVENT), EVENT)
valid("text-beyond-ascii", headers(body(summary="caf\u00e9 \U0001f680")), body(summary="caf\u00e9 \U0001f680"))
valid("a-time-in-the-future", headers(EVENT, time="2099-11-14T22:13:20Z"), EVENT)
good = headers(EVENT)
signature = good["paypal-transmission-sig"]
forged = collision(crc(EVENT), body(resource={"total": "480000.00", "number": "@"})[:-3].replace("%", "%%").replace("@", "%d"))
assert crc(forged) == crc(EVENT) and forged != EVENT
valid("another-body-of-the-same-crc", good, forged)
invalid("another-key", headers(EVENT, other), "signature-wrong")
invalid("another-key-at-its-own-url", headers(EVENT, other, **{"cert-url": ABROAD}), "key-url-foreign")
for name, url in {
    "a-foreign-url": ABROAD, "an-http-url": HOME.replace("https", "http"), "a-user-in-the-url": HOME.replace("//", "//api.paypal.com@"),
    "a-port-in-the-url": HOME.replace(".com/", ".com:8443/"),
    "a-host-that-ends-alike": HOME.replace("api.", "notpaypal-"),
}.items():
    invalid(name, headers(EVENT, **{"cert-url": url}), "key-url-foreign", judge_accepts=True)
invalid("another-webhook", headers(EVENT, webhook="1" + WEBHOOK), "signature-wrong")
invalid("another-body", good, "signature-wrong", EVENT.replace("0.48", "0.49"))
invalid("another-id", {**good, "paypal-transmission-id": "69cd13f0-d67a-11e5-baa3-778b53f4ae56"}, "signature-wrong")
invalid("another-time", {**good, "paypal-transmission-time": "2023-11-14T22:13:21Z"}, "signature-wrong")
for name, missing in {"no-signature": "paypal-transmission-sig", "no-id": "paypal-transmission-id",
                      "no-time": "paypal-transmission-time"}.items():
    invalid(name, {known: value for known, value in good.items() if known != missing}, "header-missing")
sha1 = sign(f"{good['paypal-transmission-id']}|{good['paypal-transmission-time']}|{WEBHOOK}|{crc(EVENT)}", hash=hashes.SHA1())
invalid("by-sha-1-and-named-so", headers(EVENT, sig=sha1, **{"auth-algo": "SHA1withRSA"}), "signature-none")
invalid("by-sha-1", headers(EVENT, sig=sha1), "signature-wrong")
invalid("truncated", headers(EVENT, sig=signature[:-4]), "signature-wrong")
invalid("padding-missing", headers(EVENT, sig=signature.rstrip("=")), "signature-malformed")
invalid("junk-inside", headers(EVENT, sig=signature[:9] + "*" + signature[9:]), "signature-malformed")
number, modulus = int.from_bytes(base64.b64decode(signature), "big"), key.public_key().public_numbers().n
invalid("in-the-other-case", headers(EVENT, sig=signature[:-3].upper() + signature[-3:]), "signature-wrong")
if number + modulus < 1 << 2048:
    beyond = base64.b64encode((number + modulus).to_bytes(256, "big")).decode()
    invalid("number-beyond-the-modulus", headers(EVENT, sig=beyond), "signature-wrong")
invalid("zeros", headers(EVENT, sig=base64.b64encode(bytes(256)).decode()), "signature-wrong")
invalid("a-zero-in-front", headers(EVENT, sig=base64.b64encode(bytes(1) + base64.b64decode(signature)).decode()), "signature-wrong")


def judged(one):
    given = dict(one["headers"])
    of = lambda name: given["paypal-" + name]
    try:
        return bool(WebhookEvent.verify(of("transmission-id"), of("transmission-time"), WEBHOOK, one["body"], of("cert-url"),
                                        of("transmission-sig"), of("auth-algo")))
    except Exception:
        return False


for one in vectors:
    accepted = judged(one)
    if not one["valid"]:
        one["library_accepts"] = accepted
    elif not accepted:
        raise SystemExit(f"{one['name']}: the library refuses it")
source = ("PyCA cryptography 41.0.7, judged by PyPI paypalrestsdk 1.13.3: WebhookEvent.verify, with certificates of ours in place of "
          "those that it fetches and trusts; it looks at no time")
with open(f"{place}/paypal.json", "w") as file:
    file.write(json.dumps({"format": 1, "source": source, "vectors": vectors}, indent=2, ensure_ascii=False) + "\n")
print(" ".join(f"{one['name']}={one['valid'] or one['library_accepts']}" for one in vectors))
