"""Signatures by the command `openssl`, by every algorithm that a driver file may name: `own.py > ../own/openssl.json`."""

import base64
import json
import pathlib
import subprocess
import tempfile

ID, TIMESTAMP, BODY = "evt_1", "1700000000", 'event=video.trending&note=caf%C3%A9+%26+cream'
MESSAGE = f"{ID}.{TIMESTAMP}.{BODY}".encode()
SECRET = "a secret of twenty-six bytes"


def openssl(*arguments, given=None):
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


def hmac(digest):
    return openssl("dgst", f"-{digest}", "-hmac", SECRET, "-binary", given=MESSAGE)


def fixed(der):
    """The two numbers of an ECDSA signature in ASN.1, side by side."""
    def number(at):
        length = der[at + 1]
        return der[at + 2:at + 2 + length].lstrip(b"\0").rjust(32, b"\0"), at + 2 + length
    first, after = number(2)
    return first + number(after)[0]


def pair(folder, name, *kind):
    key = str(folder / name)
    openssl("genpkey", *kind, "-out", key)
    return key, openssl("pkey", "-in", key, "-pubout").decode()


def main():
    vectors = []

    def add(name, algorithm, key, secret, encoding, text):
        vectors.append({"name": name, "algorithm": algorithm, "key": key, "secret": secret, "encoding": encoding,
                        "signature": text})

    for digest in ("sha1", "sha256", "sha512"):
        tag = hmac(digest)
        add(f"{digest} in hex", f"hmac-{digest}", "text", SECRET, "hex", tag.hex())
        add(f"{digest} in upper case", f"hmac-{digest}", "hex", SECRET.encode().hex(), "hex-upper", tag.hex().upper())
        add(f"{digest} in base64", f"hmac-{digest}", "base64", base64.b64encode(SECRET.encode()).decode(), "base64",
            base64.b64encode(tag).decode())
        add(f"{digest} in base64 for URLs", f"hmac-{digest}", "text", SECRET, "base64url",
            base64.urlsafe_b64encode(tag).decode().rstrip("="))
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        message = folder / "message"
        message.write_bytes(MESSAGE)
        key, public = pair(folder, "ed", "-algorithm", "ed25519")
        tag = openssl("pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", str(message))
        add("ed25519", "ed25519", "pem", public, "base64", base64.b64encode(tag).decode())
        raw = base64.b64decode("".join(public.splitlines()[1:-1]))[-32:]
        add("ed25519 by a bare key", "ed25519", "hex", raw.hex(), "hex", tag.hex())
        key, public = pair(folder, "ec", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        tag = openssl("dgst", "-sha256", "-sign", key, str(message))
        add("ecdsa in ASN.1", "ecdsa-p256", "pem", public, "base64", base64.b64encode(tag).decode())
        add("ecdsa as two numbers", "ecdsa-p256", "pem", public, "hex", fixed(tag).hex())
        key, public = pair(folder, "rsa", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
        tag = openssl("dgst", "-sha256", "-sign", key, str(message))
        add("rsa", "rsa-sha256", "pem", public, "base64", base64.b64encode(tag).decode())
        der = "".join(public.splitlines()[1:-1])
        add("rsa by a key in base64", "rsa-sha256", "base64", der, "base64", base64.b64encode(tag).decode())
    print(json.dumps({"source": openssl("version").decode().strip(), "id": ID, "timestamp": TIMESTAMP, "body": BODY,
                      "vectors": vectors}, indent=2))


main()
