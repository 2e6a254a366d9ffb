// Makes providers/rfc9421.json: requests with HTTP Message Signatures, and what a library of npm says of them.
//
//     npm install http-message-signatures@1.0.6 @noble/curves@2.4.0
//     node messages.mjs PATH/TO/scenarios/vectors/providers        (in a folder of its own, from which this is run)
//
// The library signed the valid ones; by a key of P-256 through @noble/curves, which repeats its signatures. Nothing runs this in a
// build.

import { createHash, createHmac, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "x.js"));
const { p256 } = await import(join(process.cwd(), "node_modules/@noble/curves/nist.js"));
const { createVerifier, httpbis } = require("http-message-signatures");
const { version } = JSON.parse(readFileSync(join(process.cwd(), "node_modules/http-message-signatures/package.json"), "utf8"));
const NOW = 1_700_000_000;
const URL = "https://example.org/hooks?tenant=7";
const SECRET = Buffer.from("a-secret-of-thirty-two-bytes-len"), OTHER = Buffer.from("another-secret-of-32-bytes-long!");
const SEED = Buffer.from("a-seed-of-an-ed25519-private-key");
const COVERED = ["@method", "@target-uri", "@authority", "content-type", "content-digest", "webhook-id"];
const BODY = JSON.stringify({ id: "evt_1", type: "video.trending", event: "video.trending", data: { views: 1200000 } });
const BODIES = {
  "an-event": BODY,
  "text-beyond-ascii": JSON.stringify({ id: "evt_1", event: "video.trending", title: "caf\u00e9 \u{1f680}" }),
  "empty-values": JSON.stringify({ id: "evt_1", event: "video.trending", data: { list: [], text: "" } }),
};

const hash = (text, algorithm = "sha256") => createHash(algorithm).update(text).digest();
const named = (members) => ({ ...members, kid: hash(JSON.stringify(members)).toString("base64url") });
const ed25519 = createPrivateKey({
  key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), SEED]), format: "der", type: "pkcs8",
});
const point = Buffer.from(p256.getPublicKey(SEED, false)).subarray(1);
const coordinates = { x: point.subarray(0, 32).toString("base64url"), y: point.subarray(32).toString("base64url") };
const pkcs8 = Buffer.concat([
  Buffer.from("308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420", "hex"), SEED,
  Buffer.from("a14403420004", "hex"), point,
]);
const x = createPublicKey(ed25519).export({ format: "jwk" }).x;
const jwks = {
  "ed25519": named({ crv: "Ed25519", kty: "OKP", x }), "ecdsa-p256-sha256": named({ crv: "P-256", kty: "EC", ...coordinates }),
};
const whsec = (secret) => `whsec_${secret.toString("base64")}`, whsk = (bytes) => `whsk_${bytes.toString("base64")}`;
const KEYS = {
  "hmac-sha256": {
    id: named({ k: SECRET.toString("base64url"), kty: "oct" }).kid, secrets: [whsec(SECRET)],
    sign: (text) => createHmac("sha256", SECRET).update(text).digest(), verifies: SECRET,
  },
  "ed25519": {
    id: jwks.ed25519.kid, secrets: [JSON.stringify(jwks.ed25519)], private_keys: [whsk(SEED)], sign: (text) => sign(null, text, ed25519),
  },
  "ecdsa-p256-sha256": {
    id: jwks["ecdsa-p256-sha256"].kid, secrets: [JSON.stringify(jwks["ecdsa-p256-sha256"])], private_keys: [whsk(pkcs8)],
    sign: (text) => Buffer.from(p256.sign(text, SEED, { lowS: false })),
  },
};
for (const [alg, key] of Object.entries(KEYS)) {
  const of = key.verifies ?? createPublicKey({ key: jwks[alg], format: "jwk" }).export({ format: "pem", type: "spki" });
  Object.assign(key, { alg, algs: [alg], verify: createVerifier(of, alg) });
}
const HMAC = KEYS["hmac-sha256"], ED25519 = KEYS.ed25519, P256 = KEYS["ecdsa-p256-sha256"];
const digest = (body, algorithm = "sha-256") => `${algorithm}=:${hash(body, algorithm.replace("-", "")).toString("base64")}:`;
const unsigned = (body) =>
  ({ "webhook-id": "evt_1", "content-type": "application/json", "content-digest": digest(body) });

const vectors = [];
const add = (name, { secrets, private_keys }, headers, body, rest) => vectors.push({
  name, profile: "rfc9421", secrets, ...(private_keys ? { private_keys } : {}), now: NOW, method: "POST", url: URL,
  headers: Object.entries(headers), body, ...rest,
});

const byLibrary = async (name, key, body, fields = COVERED, params = ["created", "keyid", "alg"], paramValues = {}, id = "evt_1") => {
  const config = { key, name: "sig1", fields, params, paramValues: { created: new Date(NOW * 1000), ...paramValues } };
  const headers = unsigned(body);
  const { headers: signed } = await httpbis.signMessage(config, { method: "POST", url: URL, headers });
  const lower = Object.entries(signed).map(([name, value]) => [name.toLowerCase(), value]);
  add(name, key, Object.fromEntries(lower), body, { valid: true, id, signed_at: NOW });
};
for (const [name, body] of Object.entries(BODIES)) await byLibrary(name, HMAC, body);
await byLibrary("by-ed25519", ED25519, BODY);
await byLibrary("by-p256", P256, BODY);
const other = ["webhook-id", "content-digest", "@query", "@path", "@authority", "@method"];
await byLibrary("other-components-and-parameters", HMAC, BODY, other, ["keyid", "created", "nonce", "expires", "tag"],
  { nonce: "n", tag: "a, \u0028b\u0029", expires: new Date((NOW + 60) * 1000) });

/** By hand: `lines` are the components in the signed text, `signed` its last line where the header has another. */
const made = ({
  key = HMAC, body = BODY, covered = COVERED, lines = covered, own = {}, created = NOW, keyid = key.id, alg = key.alg, more = "",
  by = key.sign, label = "sig1", header, encode = (bytes) => `:${bytes.toString("base64")}:`,
} = {}) => {
  const headers = { ...unsigned(body), ...own };
  const { origin, pathname, search, host } = new globalThis.URL(URL);
  const derived = {
    "@method": "POST", "@target-uri": origin + pathname + search, "@authority": host, "@path": pathname, "@query": search, ...headers,
  };
  const quoted = (name) => name.replace(/^[^;]*/, '"$&"');
  const parameter = (name, value) => (value === null ? "" : `;${name}=${typeof value === "number" ? value : `"${value}"`}`);
  const input = `(${covered.map(quoted).join(" ")})`
    + parameter("created", created) + parameter("keyid", keyid) + parameter("alg", alg) + more;
  const base = [...lines.map((name) => `${quoted(name)}: ${derived[name.split(";")[0]]}`), `"@signature-params": ${input}`].join("\n");
  return { ...headers, "signature-input": `${label}=${header?.(input) ?? input}`, signature: `${label}=${encode(by(Buffer.from(base)))}` };
};
const without = (...names) => COVERED.filter((name) => !names.includes(name));
const less = (headers, name) => Object.fromEntries(Object.entries(headers).filter(([known]) => known !== name));
const good = made(), base64 = (change) => (bytes) => `:${change(bytes.toString("base64"))}:`;
const spoiled = (key, change) => made({ key, encode: (bytes) => `:${change(bytes).toString("base64")}:` });
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const malleated = (bytes) => {
  const order = 2n ** 252n + 27742317777372353535851937790883648493n;
  const number = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString("hex")}`) + order;
  return Buffer.concat([bytes.subarray(0, 32), Buffer.from(number.toString(16).padStart(64, "0"), "hex").reverse()]);
};
const der = (bytes) => Buffer.from(p256.Signature.fromBytes(bytes, "compact").toBytes("der"));
const hmacBy = (text) => (base) => createHmac("sha256", text).update(base).digest();
const pem = createPublicKey({ key: jwks.ed25519, format: "jwk" }).export({ format: "pem", type: "spki" });
const BROKEN = {
  "signature-wrong": {
    "another-secret": made({ by: hmacBy(OTHER) }),
    "another-body": [good, { body: BODY.replace("1200000", "1200001") }],
    "another-url": [good, { url: URL.replace("7", "8") }],
    "another-id": { ...good, "webhook-id": "evt_2" },
    "another-content-type": { ...good, "content-type": "text/plain" },
    "another-timestamp": made({ header: (input) => input.replace(String(NOW), String(NOW + 1)) }),
    "digest-of-another-body": made({ own: { "content-digest": digest(`${BODY} `) } }),
    "components-in-another-order": made({ lines: [...COVERED].reverse() }),
    "digest-removed-from-the-list": made({ header: (input) => input.replace(' "content-digest"', "") }),
    "a-zero-in-front-of-the-time": made({ header: (input) => input.replace("created=", "created=0") }),
    "number-beyond-the-order": [spoiled(ED25519, malleated), ED25519],
    "key-of-ed25519-by-sha-256-alone": [made({ key: ED25519, by: (base) => Buffer.concat([hash(base), hash(base)]) }), ED25519],
  },
  "signature-uncovered": {
    "uncovered-digest": made({ covered: without("content-digest") }),
    "uncovered-method": made({ covered: without("@method") }),
    "uncovered-target": made({ covered: without("@target-uri") }),
    "nothing-covered": made({ covered: [] }),
  },
  "signature-none": {
    "another-keyid": made({ keyid: "another" }),
    "no-keyid": made({ keyid: null }),
    "another-algorithm-named": made({ alg: "ed25519" }),
    "algorithm-in-upper-case": made({ alg: "HMAC-SHA256" }),
    "hmac-by-the-public-key": [made({ key: ED25519, alg: "hmac-sha256", by: hmacBy(pem) }), ED25519],
    "an-unknown-parameter": made({ more: ";once" }),
    "a-component-of-another-request": made({ covered: [...without("@method"), "@method;req"] }),
    "a-component-in-another-form": made({ covered: [...without("content-type"), "content-type;sf"] }),
  },
  "signature-malformed": {
    "hmac-as-ed25519": [made({ key: ED25519, by: hmacBy(pem) }), ED25519],
    "signature-in-der": [spoiled(P256, der), P256],
    "signature-of-zeros": [spoiled(P256, () => Buffer.alloc(64)), P256],
    "truncated": made({ encode: base64((text) => text.slice(0, -4)) }),
    "padding-missing": made({ encode: base64((text) => text.replace("=", "")) }),
    "other-bits-in-the-last-character": made({
      encode: base64((text) => text.replace(/.=$/, (end) => `${ALPHABET[ALPHABET.indexOf(end[0]) ^ 1]}=`)),
    }),
    "junk-inside": made({ encode: base64((text) => `${text.slice(0, 20)}*${text.slice(20)}`) }),
    "a-space-inside": made({ encode: base64((text) => `${text.slice(0, 20)} ${text.slice(20)}`) }),
    "a-token-in-place-of-bytes": made({ encode: (bytes) => bytes.toString("hex") }),
    "another-label": { ...good, signature: good.signature.replace("sig1", "sig2") },
    "signature-twice": { ...good, signature: good.signature.replace("sig1=", "sig1=:AAAA:, sig1=") },
    "input-twice": { ...good, "signature-input": good["signature-input"].replace("sig1=", "sig1=(), sig1=") },
    "a-signature-without-an-input": { ...good, signature: `${good.signature}, a=:AAAA:` },
    "two-spaces-between-components": made({ header: (input) => input.replace('" "', '"  "') }),
    "a-space-before-a-parameter": made({ header: (input) => input.replace(";keyid", "; keyid") }),
    "a-component-twice": made({ covered: [...COVERED, "@method"] }),
    "keyid-twice": made({ more: `;keyid="${HMAC.id}"` }),
    "time-as-text": made({ created: String(NOW) }),
    "time-with-a-fraction": made({ created: null, more: `;created=${NOW}.5` }),
    "digest-by-sha-512-alone": made({ own: { "content-digest": digest(BODY, "sha-512") } }),
    "digest-twice": made({ own: { "content-digest": `${digest(`${BODY} `)}, ${digest(BODY)}` } }),
    "longer-than-4096": made({ more: `;nonce="${"n".repeat(4096)}"` }),
  },
  "timestamp-malformed": { "no-time": made({ created: null }) },
  "timestamp-old": { "too-old": [good, { now: NOW + 301 }], "expired": made({ more: `;expires=${NOW - 1}` }) },
  "timestamp-ahead": { "too-early": [good, { now: NOW - 301 }] },
  "header-missing": {
    "no-signature": less(good, "signature"), "no-input": less(good, "signature-input"), "no-digest": less(good, "content-digest"),
    "no-id": less(good, "webhook-id"),
  },
};
for (const [rule, rows] of Object.entries(BROKEN)) {
  for (const [name, row] of Object.entries(rows)) {
    const [headers, rest = {}] = Array.isArray(row) ? row : [row];
    const { secrets, private_keys, now, url, body = BODY } = { secrets: HMAC.secrets, ...rest };
    const changed = Object.fromEntries(Object.entries({ now, url }).filter(([, value]) => value !== undefined));
    add(name, { secrets, private_keys }, headers, body, { ...changed, valid: false, rule });
  }
}

/** As its documents say, and the digest, which it leaves to its user. */
const accepts = async ({ now, headers, method, url, body, secrets }) => {
  const RealDate = Date;
  globalThis.Date = class extends RealDate { static now() { return now * 1000; } };
  try {
    const held = Object.values(KEYS).find((key) => key.secrets[0] === secrets[0]);
    const verified = await httpbis.verifyMessage({
      keyLookup: async ({ keyid }) => (keyid === held.id ? held : null), maxAge: 600, tolerance: 300,
      requiredParams: ["created", "keyid"], requiredFields: ["@method", "content-digest"],
    }, { method, url, headers: Object.fromEntries(headers) });
    return verified === true && Object.fromEntries(headers)["content-digest"].split(", ").includes(digest(body));
  } catch {
    return false;
  } finally {
    globalThis.Date = RealDate;
  }
};
for (const one of vectors) {
  const accepted = await accepts(one);
  if (!one.valid) one.library_accepts = accepted;
  else if (!accepted) throw new Error(`${one.name}: the library refuses it`);
}
const source = `npm http-message-signatures ${version}, and @noble/curves for P-256; judged by the former: verifyMessage with maxAge, `
  + "required fields @method and content-digest, and its user's check of the digest";
const lines = vectors.map((one) => `    ${JSON.stringify(one)}`).join(",\n");
const file = `{\n  "format": 1,\n  "source": ${JSON.stringify(source)},\n  "vectors": [\n${lines}\n  ]\n}\n`;
writeFileSync(join(process.argv[2], "rfc9421.json"), file);
process.stdout.write(vectors.map((one) => `${one.name}=${one.valid || one.library_accepts}`).join("\n") + "\n");
