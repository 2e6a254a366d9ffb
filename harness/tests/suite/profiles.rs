use std::path::Path;

use hookproof_judge::signature::Profile;

use crate::suite::examples::folder_with;
use crate::suite::reference::{PRIVATE, PUBLIC, PUBLIC_ED25519_JWK, PUBLIC_JWK, PUBLIC_P256, PUBLIC_RSA};
use crate::suite::{check, hookproof};

const PROFILE: &str = r#"
algorithm      = "hmac-sha1"
encoding       = "base64"
header         = "X-Acme-Signature"
prefix         = "a1:"
signed         = ["{method} {url}\n{timestamp}\n{body}"]
timestamp      = "X-Acme-Time"
timestamp_unit = "ms"
tolerance      = 60
id             = "X-Acme-Id"
headers        = { X-Acme-Tenant = "t1" }
"#;

/// Reads a request by this profile; the flaws by its argument.
const RECEIVER: &str = r#"
import base64, hashlib, hmac, os, re, sys, time

flaw = sys.argv[1]
head, _, body = sys.stdin.buffer.read().partition(b"\r\n\r\n")
lines = head.split(b"\r\n")
method, path, _ = lines[0].split(b" ")
headers = {}
for line in lines[1:]:
    name, _, value = line.partition(b":")
    headers.setdefault(name.lower(), []).append(value.strip(b" \t"))

def one(name, form):
    values = headers.get(name, [])
    if len(values) != 1 or not re.fullmatch(form, values[0]):
        sys.exit(1)
    return values[0]

signature = one(b"x-acme-signature", rb"a1:[A-Za-z0-9+/]{27}=")
stamp = one(b"x-acme-time", rb"[1-9][0-9]{0,15}")
one(b"x-acme-id", rb"[\x21-\x7e]{1,256}")
if headers.get(b"x-acme-tenant") != [b"t1"]:
    sys.exit(1)
if flaw != "age" and abs(time.time() * 1000 - int(stamp)) > 60_000:
    sys.exit(1)
url = b"http://" + one(b"host", rb"[a-z0-9.:]+") + path
signed = body if flaw == "body" else method + b" " + url + b"\n" + stamp + b"\n" + body
key = os.environ["HOOK_SECRET"].encode()
tag = b"a1:" + base64.b64encode(hmac.new(key, signed, hashlib.sha1).digest())
if flaw == "prefix":
    sys.exit(0 if tag[:12] == signature[:12] else 1)
sys.exit(0 if hmac.compare_digest(tag, signature) else 1)
"#;

fn judged(folder: &Path, flaw: &str, only: &str) -> (Option<i32>, String) {
    let file = |name: &str| folder.join(name).display().to_string();
    let command = format!("python3 {} {flaw}", file("receiver.py"));
    let whom =
        ["receiver", "--exec", &command, "--profile", &file("acme.toml"), "--secret-env", "HOOK_SECRET"];
    let output = hookproof(&[&whom[..], &["--strict", "--only", only]].concat());
    let told = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&told).into_owned())
}

#[test]
fn a_receiver_is_certified_by_a_profile_of_its_own_and_a_flaw_is_found() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: Python is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acme.toml"), PROFILE).unwrap();
    std::fs::write(folder.path().join("receiver.py"), RECEIVER).unwrap();
    let (code, told) = judged(folder.path(), "none", "sig.*,time.*,header.*,raw.*");
    assert_eq!(code, Some(0), "{told}");
    for case in ["sig.valid", "sig.tag-bit", "sig.algorithm", "sig.case", "time.old", "time.future"] {
        assert!(told.contains(&format!("PASS           {case}")), "{case}: {told}");
    }
    assert!(told.contains("acme.toml does not sign X-Acme-Id: a captured delivery passes again"), "{told}");
    for (flaw, case) in [("age", "time.old"), ("prefix", "sig.tag-bit"), ("body", "sig.valid")] {
        let (code, told) = judged(folder.path(), flaw, "sig.valid,sig.tag-bit,time.old");
        assert_eq!(code, Some(1), "{flaw}: {told}");
        assert!(told.contains(&format!("FAIL           {case}")), "{flaw}: {told}");
    }
}

/// Each process takes a while to start, so all of a case's requests take longer than half of the tolerance.
#[test]
fn a_slow_receiver_gets_requests_with_a_fresh_timestamp() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: Python is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acme.toml"), PROFILE.replace("= 60", "= 1")).unwrap();
    let receiver = RECEIVER.replace("60_000", "600_000");
    std::fs::write(folder.path().join("receiver.py"), receiver).unwrap();
    let (code, told) = judged(folder.path(), "none", "sig.valid,sig.trust");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("PASS           sig.trust"), "{told}");
}

/// Takes the requests of Twilio with one kind of body, the first argument; "value" signs over the names of a form alone.
const TWILIO_RECEIVER: &str = r#"
import base64, hashlib, hmac, os, re, sys
from urllib.parse import parse_qsl

kind, flaw = sys.argv[1], sys.argv[2]
head, _, body = sys.stdin.buffer.read().partition(b"\r\n\r\n")
lines = head.split(b"\r\n")
method, path, _ = lines[0].split(b" ")
headers = {}
for line in lines[1:]:
    name, _, value = line.partition(b":")
    headers.setdefault(name.lower(), []).append(value.strip(b" \t"))

def one(name, form):
    values = headers.get(name, [])
    if len(values) != 1 or not re.fullmatch(form, values[0]):
        sys.exit(1)
    return values[0]

signature = one(b"x-twilio-signature", rb"[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=")
expected = {"form": rb"application/x-www-form-urlencoded", "json": rb"application/json"}[kind]
one(b"content-type", expected)
signed = b"http://" + one(b"host", rb"[a-z0-9.:]+") + path
if kind == "form":
    pairs = parse_qsl(body.decode("utf-8", "surrogateescape"), keep_blank_values=True, errors="surrogateescape")
    for name, value in sorted(set(pairs)):
        signed += (name if flaw == "value" else name + value).encode("utf-8", "surrogateescape")
elif not path.endswith(b"bodySHA256=" + hashlib.sha256(body).hexdigest().encode()):
    sys.exit(1)
tag = base64.b64encode(hmac.new(os.environ["HOOK_SECRET"].encode(), signed, hashlib.sha1).digest())
sys.exit(0 if hmac.compare_digest(tag, signature) else 1)
"#;

#[test]
fn a_receiver_of_one_kind_of_body_is_certified_for_that_kind() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: Python is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("receiver.py").display().to_string();
    std::fs::write(&file, TWILIO_RECEIVER).unwrap();
    let judged = |arguments: &str, options: &[&str]| {
        let command = format!("python3 {file} {arguments}");
        let whom = ["receiver", "--exec", &command, "--profile", "twilio", "--secret-env", "HOOK_SECRET"];
        let output =
            hookproof(&[&whom[..], &["--strict", "--only", "sig,header,raw,time"], options].concat());
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    for (kind, bodies) in [("form", "forms"), ("json", "json")] {
        let (code, told) = judged(&format!("{kind} none"), &[]);
        assert_ne!(code, Some(0), "{kind}: {told}");
        let (code, told) = judged(&format!("{kind} none"), &["--bodies", bodies]);
        let whole = format!("by --bodies {bodies}: nothing is known of");
        assert!(code == Some(0) && told.contains(&whole), "{kind}: {told}");
    }
    let (code, told) = judged("form none", &["--bodies", "forms"]);
    assert!(code == Some(0) && told.contains("NOT APPLICABLE raw.whitespace"), "{told}");
    let (code, told) = judged("form value", &["--bodies", "forms"]);
    assert_eq!(code, Some(1), "{told}");
    let slack = ["receiver", "--exec", "true", "--profile", "slack", "--secret-env", "HOOK_SECRET"];
    check(&[&slack[..], &["--bodies", "json"]].concat(), 64, "the bodies of slack are JSON alone");
}

const BY_KEY: &str = r#"
algorithm = "ed25519"
key       = "hex"
encoding  = "base64"
header    = "X-Acme-Signature"
signed    = ["{id}.{timestamp}.{body}"]
timestamp = "X-Acme-Time"
id        = "X-Acme-Id"
"#;

/// The head of the receivers below.
const READ_REQUEST: &str = r#"
import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

const raw = readFileSync(0);
const end = raw.indexOf("\r\n\r\n");
const headers = {};
for (const line of raw.subarray(0, end).toString("latin1").split("\r\n").slice(1)) {
  const [, name, value] = line.match(/^([^:]*):[ \t]*(.*?)[ \t]*$/);
  (headers[name.toLowerCase()] ??= []).push(value);
}
const one = (name, form) => {
  const values = headers[name] ?? [];
  if (values.length !== 1 || !form.test(values[0])) process.exit(1);
  return values[0];
};
"#;

/// The flaw is to take any signature.
const BY_KEY_RECEIVER: &str = r#"
const signature = Buffer.from(one("x-acme-signature", /^[A-Za-z0-9+/]{85}[AQgw]==$/), "base64");
const time = one("x-acme-time", /^[1-9][0-9]{0,15}$/);
const id = one("x-acme-id", /^[\x21-\x2d\x2f-\x7e]{1,256}$/);
if (Math.abs(Date.now() / 1000 - Number(time)) > 300) process.exit(1);
const der = Buffer.from("302a300506032b6570032100" + process.env.PUBLIC_KEY, "hex");
const key = createPublicKey({ key: der, format: "der", type: "spki" });
const signed = Buffer.concat([Buffer.from(`${id}.${time}.`), raw.subarray(end + 4)]);
process.exit(process.argv[2] === "trusting" || verify(null, signed, key, signature) ? 0 : 1);
"#;

/// Verifies as `sendgrid` by Node's crypto. "zeros" takes two zeros for a signature, as Java did (CVE-2022-21449), and "lax" DER
/// with a length in two bytes, as SendGrid's library does.
const SENDGRID_RECEIVER: &str = r#"
const signed = one("x-twilio-email-event-webhook-signature", /^[A-Za-z0-9+/]+={0,2}$/);
const time = one("x-twilio-email-event-webhook-timestamp", /^[1-9][0-9]{0,15}$/);
let signature = Buffer.from(signed, "base64");
if (signature.toString("base64") !== signed || Math.abs(Date.now() / 1000 - Number(time)) > 300) process.exit(1);
if (process.argv[2] === "zeros" && signature.toString("hex") === "3006020100020100") process.exit(0);
if (process.argv[2] === "lax" && signature[1] === 0x81) signature = Buffer.concat([signature.subarray(0, 1), signature.subarray(2)]);
const key = createPublicKey({ key: Buffer.from(process.env.PUBLIC_KEY, "base64"), format: "der", type: "spki" });
process.exit(verify("sha256", Buffer.concat([Buffer.from(time), raw.subarray(end + 4)]), key, signature) ? 0 : 1);
"#;

#[test]
fn a_receiver_of_sendgrid_in_another_language_is_certified_and_its_flaws_are_found() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: Node is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("receiver.mjs").display().to_string();
    std::fs::write(&file, format!("{READ_REQUEST}{SENDGRID_RECEIVER}")).unwrap();
    for (flaw, only, expected) in
        [("none", "sig,time", 0), ("zeros", "sig.wrong-secret", 1), ("lax", "sig.base64-junk", 1)]
    {
        let command = format!("PUBLIC_KEY={PUBLIC_P256} node {file} {flaw}");
        let whom = ["receiver", "--exec", &command, "--profile", "sendgrid", "--secret-env", "PRIVATE_KEY"];
        let output = hookproof(&[&whom[..], &["--strict", "--only", only]].concat());
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(expected), "{flaw}: {told}");
    }
}

/// The head of both receivers of Plaid. "lax" takes other spellings of base64.
const READ_TOKEN: &str = r#"
import { createHash } from "node:crypto";
const flaw = process.argv[2];
const form = flaw === "lax" ? /^[\w.=-]+$/ : /^[\w-]{1,1000}\.[\w-]{1,1000}\.[\w-]{85}[AQgw]$/;
const token = one("plaid-verification", form);
const known = JSON.parse(process.env.PUBLIC_KEY);
const hash = createHash("sha256").update(raw.subarray(end + 4)).digest("hex");
const fits = (claims) => flaw === "unhashed" || claims.request_body_sha256 === hash;
"#;

/// "trusting" takes the algorithm from the token.
const PLAID_RECEIVER: &str = r#"
const [head, claims, signature] = token.split(".");
const read = (part) => { try { return JSON.parse(Buffer.from(part, "base64url")); } catch { process.exit(1); } };
const { alg, kid } = read(head);
const key = createPublicKey({ key: known, format: "jwk" });
const signed = verify("sha256", Buffer.from(`${head}.${claims}`), { key, dsaEncoding: "ieee-p1363" }, Buffer.from(signature, "base64url"));
if (!signed || kid !== known.kid || (alg !== "ES256" && flaw !== "trusting")) process.exit(1);
const { iat, ...rest } = read(claims);
if (!Number.isInteger(iat) || Math.abs(Date.now() / 1000 - iat) > 300) process.exit(1);
process.exit(fits(rest) ? 0 : 1);
"#;

/// "embedded" takes a key from the token.
const PLAID_RECEIVER_BY_JOSE: &str = r#"
import { EmbeddedJWK, importJWK, jwtVerify } from "jose";
const key = await importJWK(known, "ES256");
const named = ({ kid }) => { if (kid !== known.kid) throw new Error("another key"); return key; };
const given = (head, token) => (head.jwk && flaw === "embedded" ? EmbeddedJWK(head, token) : named(head));
// As old as the tolerance, and as far ahead.
const options = { algorithms: ["ES256"], maxTokenAge: 0, clockTolerance: 300 };
const { payload } = await jwtVerify(token, given, options).catch(() => process.exit(1));
process.exit(fits(payload) ? 0 : 1);
"#;

struct Kind<'a> {
    profile: &'a str,
    /// The variable with its secret.
    secret: &'a str,
    passed: &'a [&'a str],
}

const TOKENS: Kind<'_> = Kind {
    profile: "plaid",
    secret: "PRIVATE_KEY",
    passed: &[
        "sig.wrong-secret",
        "sig.body-bit",
        "sig.tag-bit",
        "sig.timestamp-swap",
        "sig.parts",
        "sig.algorithm",
        "sig.base64-junk",
    ],
};

const MESSAGES: Kind<'_> = Kind {
    profile: "rfc9421",
    secret: "HOOK_SECRET",
    passed: &["sig.wrong-secret", "sig.parts", "sig.algorithm", "sig.base64-junk", "time.old", "time.twice"],
};

/// Whether each flaw is found by its case, and the right receiver has none. The command is given the flaw.
fn judge(command: &str, Kind { profile, secret, passed }: &Kind<'_>, flaws: &[(&str, &str)]) {
    let judged = |flaw: &str, only: &str| {
        let command = format!("{command} {flaw}");
        let whom = ["receiver", "--exec", &command, "--profile", profile, "--secret-env", secret];
        let output = hookproof(&[&whom[..], &["--strict", "--only", only]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, told) = judged("none", "sig,time,header,raw");
    assert_eq!(code, Some(0), "{told}");
    for case in *passed {
        assert!(told.contains(&format!("PASS           {case} ")), "{case}: {told}");
    }
    assert!(!told.contains(PRIVATE), "{told}");
    for (flaw, case) in flaws {
        let (code, told) = judged(flaw, &format!("sig.valid,{case}"));
        let failed =
            told.contains("PASS           sig.valid ") && told.contains(&format!("FAIL           {case} "));
        assert!(code == Some(1) && failed, "{flaw}: {told}");
    }
}

fn judge_plaid(folder: &Path, script: &str, flaws: &[(&str, &str)]) {
    let file = folder.join("receiver.mjs").display().to_string();
    std::fs::write(&file, format!("{READ_REQUEST}{READ_TOKEN}{script}")).unwrap();
    judge(&format!("PUBLIC_KEY='{PUBLIC_JWK}' node {file}"), &TOKENS, flaws);
}

#[test]
fn a_receiver_of_plaid_in_another_language_is_certified_and_its_flaws_are_found() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: Node is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let flaws = [("unhashed", "sig.body-bit"), ("unhashed", "sig.parts"), ("trusting", "sig.algorithm")];
    judge_plaid(folder.path(), PLAID_RECEIVER, &flaws);
}

#[test]
fn a_receiver_of_plaid_by_jose_is_certified_and_its_flaws_are_found() {
    let Some(folder) = folder_with("jose") else { return };
    let flaws = [("unhashed", "sig.body-bit"), ("lax", "sig.base64-junk"), ("embedded", "sig.algorithm")];
    judge_plaid(folder.path(), PLAID_RECEIVER_BY_JOSE, &flaws);
}

/// "lax" decodes base64 as Adyen's library does, "short" also takes a signature without `success`, "flagged" reads any
/// as true, "first" looks at the first item alone.
const ADYEN_RECEIVER: &str = r#"
import { createHmac, timingSafeEqual } from "node:crypto";
const flaw = process.argv[2];
let item, more;
try { [{ NotificationRequestItem: item }, ...more] = JSON.parse(raw.subarray(end + 4)).notificationItems; } catch { process.exit(1); }
if (more.length > 0 && flaw !== "first") process.exit(1);
const { pspReference, originalReference, merchantAccountCode, merchantReference, amount, eventCode, success } = item;
const read = flaw === "flagged" ? "true" : success;
const parts = [pspReference, originalReference, merchantAccountCode, merchantReference, amount.value, amount.currency, eventCode, read];
const given = item.additionalData?.hmacSignature;
if (typeof given !== "string" || (flaw !== "lax" && !/^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(given))) process.exit(1);
const fits = (parts) => {
  const tag = createHmac("sha256", Buffer.from(process.env.HEX_SECRET, "hex")).update(parts.join(":")).digest();
  const bytes = Buffer.from(given, "base64");
  return bytes.length === tag.length && timingSafeEqual(bytes, tag);
};
process.exit(fits(parts) || (flaw === "short" && fits(parts.slice(0, -1))) ? 0 : 1);
"#;

#[test]
fn a_receiver_of_adyen_in_another_language_is_certified_and_its_flaws_are_found() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: Node is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("receiver.mjs");
    std::fs::write(&file, format!("{READ_REQUEST}{ADYEN_RECEIVER}")).unwrap();
    let passed =
        ["sig.wrong-secret", "sig.missing", "sig.body-bit", "sig.parts", "sig.base64-junk", "header.twice"];
    let kind = Kind { profile: "adyen", secret: "HEX_SECRET", passed: &passed };
    let flaws = [
        ("lax", "sig.base64-junk"),
        ("short", "sig.parts"),
        ("flagged", "sig.body-bit"),
        ("first", "sig.body-bit"),
    ];
    judge(&format!("node {}", file.display()), &kind, &flaws);
}

/// "fetching" takes the certificate of any URL, "lax" decodes base64 as Node does, "short" also takes a signature for no webhook.
const PAYPAL_RECEIVER: &str = r#"
import { X509Certificate } from "node:crypto";
const flaw = process.argv[2], text = /^[\x21-\x7b\x7d\x7e]{1,256}$/;
const [id, time] = ["id", "time"].map((name) => one(`paypal-transmission-${name}`, text));
const signature = one("paypal-transmission-sig", flaw === "lax" ? /^/ : /^[A-Za-z0-9+/]{341}[AQgw]==$/);
const url = one("paypal-cert-url", /^https?:/);
one("paypal-auth-algo", /^SHA256withRSA$/);
let key = createPublicKey({ key: Buffer.from(process.env.PUBLIC_KEY, "base64"), format: "der", type: "spki" });
if (!url.startsWith("https://api.paypal.com/")) {
  if (flaw !== "fetching") process.exit(1);
  key = await fetch(url).then((answer) => answer.text()).then((pem) => new X509Certificate(pem).publicKey).catch(() => process.exit(1));
}
let crc = -1;
for (const byte of raw.subarray(end + 4)) {
  crc ^= byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
}
const crc32 = (~crc) >>> 0;
const fits = (...parts) => verify("sha256", Buffer.from(parts.join("|")), key, Buffer.from(signature, "base64"));
process.exit(fits(id, time, "HOOKPROOF", crc32) || (flaw === "short" && fits(id, time, crc32)) ? 0 : 1);
"#;

#[test]
fn a_receiver_of_paypal_in_another_language_is_certified_and_its_flaws_are_found() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: Node is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("receiver.mjs");
    std::fs::write(&file, format!("{READ_REQUEST}{PAYPAL_RECEIVER}")).unwrap();
    let passed =
        ["sig.wrong-secret", "sig.body-bit", "sig.id-swap", "sig.tag-bit", "sig.parts", "sig.base64-junk"];
    let kind = Kind { profile: "paypal", secret: "RSA_KEY", passed: &passed };
    let flaws = [("fetching", "sig.wrong-secret"), ("lax", "sig.base64-junk"), ("short", "sig.parts")];
    let (_, key) = PUBLIC_RSA.split_once(':').unwrap();
    judge(&format!("PUBLIC_KEY={key} node {}", file.display()), &kind, &flaws);
}

/// Verifies HTTP Message Signatures by Python's `hmac`. "undigested" looks at no digest, "unlisted" at no list of components.
const MESSAGE_RECEIVER: &str = r#"
import base64, hashlib, hmac, os, re, sys, time

flaw = sys.argv[1]
head, _, body = sys.stdin.buffer.read().partition(b"\r\n\r\n")
lines = head.split(b"\r\n")
method, path, _ = lines[0].split(b" ")
headers = {}
for line in lines[1:]:
    name, _, value = line.partition(b":")
    headers.setdefault(name.lower(), []).append(value.strip(b" \t"))

def one(name, form=rb"[\x20-\x7e]+"):
    values = headers.get(name, [])
    found = re.fullmatch(form, values[0]) if len(values) == 1 else None
    return found or sys.exit(1)

key = base64.b64decode(os.environ["HOOK_SECRET"][6:])
url_safe = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")
keyid = re.escape(url_safe(hashlib.sha256(b'{"k":"%s","kty":"oct"}' % url_safe(key)).digest()))
parameters = rb'created=([1-9][0-9]{0,14});keyid="' + keyid + rb'";alg="hmac-sha256"'
given = one(b"signature-input", rb'sig1=(\(((?:"[^"]+" ?)*)\);' + parameters + rb")")
names = given[2].replace(b'"', b"").split()
if flaw != "unlisted" and not {b"@method", b"@target-uri", b"content-digest"} <= set(names):
    sys.exit(1)
host = one(b"host")[0]
derived = {b"@method": method, b"@target-uri": b"http://" + host + path, b"@authority": host}
base = b"".join(b'"%s": %s\n' % (name, derived.get(name) or one(name)[0]) for name in names)
tag = hmac.new(key, base + b'"@signature-params": ' + given[1], hashlib.sha256).digest()
signed = hmac.compare_digest(base64.b64encode(tag), one(b"signature", rb"sig1=:([A-Za-z0-9+/]{43}=):")[1])
digest = b"sha-256=:%s:" % base64.b64encode(hashlib.sha256(body).digest())
whole = flaw == "undigested" or one(b"content-digest")[0] == digest
one(b"webhook-id", rb"[\x21-\x7e]{1,256}")
sys.exit(0 if signed and whole and abs(time.time() - int(given[3])) <= 300 else 1)
"#;

/// By a library, which leaves the digest, the coverage and the type of `created` to its user.
const MESSAGE_RECEIVER_BY_A_LIBRARY: &str = r#"
import { createHash } from "node:crypto";
import { createVerifier, httpbis } from "http-message-signatures";
const flaw = process.argv[2], known = JSON.parse(process.env.PUBLIC_KEY);
const all = Object.fromEntries(Object.keys(headers).map((name) => [name, one(name, /^[\x20-\x7e]+$/)]));
const [method, path] = raw.subarray(0, end).toString("latin1").split(" ");
const key = createPublicKey({ key: known, format: "jwk" });
const held = { algs: ["ed25519"], verify: createVerifier(key, "ed25519") };
const signed = await httpbis.verifyMessage({
  keyLookup: async ({ keyid }) => (keyid === known.kid ? held : null),
  maxAge: 600, tolerance: 300, requiredParams: ["created", "keyid"],
  requiredFields: flaw === "unlisted" ? [] : ["@method", "@target-uri", "content-digest"],
}, { method, url: `http://${all.host}${path}`, headers: all }).catch(() => false);
const digest = `sha-256=:${createHash("sha256").update(raw.subarray(end + 4)).digest("base64")}:`;
const whole = flaw === "undigested" || all["content-digest"] === digest;
const dated = /;created=[1-9][0-9]{0,14}(;|$)/.test(all["signature-input"]);
process.exit(signed === true && whole && dated && /^[\x21-\x7e]+$/.test(all["webhook-id"] ?? "") ? 0 : 1);
"#;

const OF_MESSAGES: [(&str, &str); 2] = [("undigested", "sig.body-bit"), ("unlisted", "sig.parts")];

#[test]
fn a_receiver_of_http_message_signatures_is_certified_and_its_flaws_are_found() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: Python is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("receiver.py");
    std::fs::write(&file, MESSAGE_RECEIVER).unwrap();
    judge(&format!("python3 {}", file.display()), &MESSAGES, &OF_MESSAGES);
}

#[test]
fn a_receiver_of_http_message_signatures_by_a_library_is_certified_and_its_flaws_are_found() {
    let Some(folder) = folder_with("http-message-signatures") else { return };
    let file = folder.path().join("receiver.mjs");
    std::fs::write(&file, format!("{READ_REQUEST}{MESSAGE_RECEIVER_BY_A_LIBRARY}")).unwrap();
    let by_key = Kind { secret: "PRIVATE_KEY", ..MESSAGES };
    judge(&format!("PUBLIC_KEY='{PUBLIC_ED25519_JWK}' node {}", file.display()), &by_key, &OF_MESSAGES);
}

#[test]
fn a_receiver_with_a_public_key_is_certified_by_a_profile_of_its_own_and_a_flaw_is_found() {
    if std::process::Command::new("node").arg("--version").output().is_err() {
        eprintln!("skipped: Node is not on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("acme.toml"), BY_KEY).unwrap();
    std::fs::write(file("receiver.mjs"), format!("{READ_REQUEST}{BY_KEY_RECEIVER}")).unwrap();
    let judged = |flaw: &str, only: &str| {
        let command = format!("PUBLIC_KEY={PUBLIC} node {} {flaw}", file("receiver.mjs"));
        let profile = file("acme.toml");
        let whom = [
            "receiver",
            "--exec",
            &command,
            "--profile",
            &profile,
            "--secret-env",
            "PRIVATE_KEY",
            "--strict",
        ];
        let output = hookproof(&[&whom[..], &["--only", only]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, told) = judged("none", "sig.*,time.*");
    assert_eq!(code, Some(0), "{told}");
    for case in ["sig.valid", "sig.wrong-secret", "sig.tag-bit", "sig.algorithm", "sig.id-swap", "time.old"] {
        assert!(told.contains(&format!("PASS           {case}")), "{case}: {told}");
    }
    assert!(!told.contains(PRIVATE), "{told}");
    let (code, told) = judged("trusting", "sig.wrong-secret");
    assert_eq!(code, Some(1), "{told}");
}

#[test]
fn a_mistake_in_a_profile_is_told_with_its_place_and_the_expected_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acme.toml").display().to_string();
    let rows = [
        (
            "algorithm = \"hmac-sha256\"\nheder = \"S\"",
            "acme.toml:2: heder: unknown key; did you mean \"header\"?",
        ),
        ("algorithm = \"hmac-sha256\"\nheader = 7", "acme.toml:2: header: "),
        (
            "algorithm = \"hmac-sha256\"\nheader = \"S\"\nencoding = \"hx\"\nsigned = [\"{body}\"]",
            "acme.toml:3: encoding: expected one of hex, hex-upper, base64, base64url, got \"hx\"; did you mean \"hex\"?",
        ),
        ("header = \"S\"", "acme.toml: algorithm: there is neither"),
        (
            "algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{timestamp}\"]\ntimestamp = \"T\"",
            "acme.toml:3: signed: it lacks {body}, so that the signature would hold for any body",
        ),
        (
            "algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{header.X-Tenant}.{body}\"]",
            "acme.toml:3: signed: it has {header.X-Tenant}; expected X-Tenant in `headers` as well",
        ),
        (
            "algorithm = \"hmac-sha256\"\nheader = \"S\"\nsigned = [\"{body}\"]\ntolerance = \"60\"",
            "acme.toml:4: tolerance: expected a whole number from 0 to 4294967295, got the text \"60\"",
        ),
        (
            "algorithm = \"rfc9421\"\nheader = \"S\"",
            "acme.toml:2: header: expected it only without rfc9421, which sets it",
        ),
        (
            "algorithm = \"rfc9421\"\nsigned = [\"@method\", \"@target-uri\"]",
            "acme.toml:2: signed: it lacks \"content-digest\"",
        ),
        ("algorithm = \"none\"", "acme.toml:1: algorithm: expected one with which the suite can sign"),
    ];
    for command in ["receiver", "load"] {
        let whom = [command, "http://127.0.0.1:9/", "--secret-env", "HOOK_SECRET"];
        let rate = if command == "load" { &["--rate", "1/s"][..] } else { &[] };
        let check = |profile: &str, said: &str| {
            check(&[&whom, rate, &["--profile", profile]].concat(), 64, said);
        };
        for (text, said) in rows {
            std::fs::write(&path, text).unwrap();
            check(&path, said);
        }
        std::fs::remove_file(&path).unwrap();
        check(&path, "acme.toml: ");
        check("gihub", "or a file that ends in .toml");
    }
}

#[test]
fn the_help_and_the_document_name_each_profile() {
    let help = hookproof(&["receiver", "--help"]).stdout;
    let help = String::from_utf8_lossy(&help).split_whitespace().collect::<Vec<_>>().join(" ");
    let names: Vec<_> = Profile::names().collect();
    assert!(help.contains(&names.join(", ")), "{help}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/partner.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (last, rest) = names.split_last().unwrap();
    let named = format!("`{}` or `{last}`", rest.join("`, `"));
    assert!(document.contains(&named), "docs/partner.md: expected {named}");
}
