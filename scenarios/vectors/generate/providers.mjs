// Makes providers/*.json: requests in each provider's form, and what the provider's own library says of them.
//
//     npm install @shopify/shopify-api@13.1.0 @slack/bolt@5.1.0 @zoom/rivet@0.4.0 @linear/sdk@98.0.0 square@46.0.0 \
//       @paddle/paddle-node-sdk@3.10.0 @line/bot-sdk@11.0.0 @hubspot/api-client@13.5.0 @octokit/webhooks-methods@6.0.0 \
//       discord-interactions@4.4.0 twilio@6.3.1 @sendgrid/eventwebhook@8.0.0 @noble/curves@2.4.0 jose@6.2.18
//     node providers.mjs PATH/TO/scenarios/vectors/providers [PROFILE]     (in a folder of its own, from which this is run)
//     node providers.mjs serve PROFILE PORT     a receiver that does no more than ask the library; prints the library
//
// The signatures are made here by Node's crypto, or by @noble/curves where it cannot repeat one, after the provider's
// documents. A valid one that the library refuses ends the script. The files are data of the repository; nothing runs this in a build.

import { createServer } from "node:http";
import { createHash, createHmac, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "x.js"));
const { p256 } = await import(join(process.cwd(), "node_modules/@noble/curves/nist.js"));
const place = process.argv[2];
const NOW = 1_700_000_000;
const URL = "https://example.org/hooks?tenant=7";
const SECRET = "a-secret-of-twenty-bytes";
const WHSEC = `whsec_${Buffer.from(SECRET).toString("base64")}`;
const OTHER = "another-secret-of-thirty-bytes";
const SEED = "a-seed-of-an-ed25519-private-key";
const BODIES = {
  "an-event": { id: "evt_1", type: "video.trending", event: "video.trending", data: { views: 1200000 } },
  "text-beyond-ascii": { id: "evt_1", event: "video.trending", title: "caf\u00e9 \u{1f680}" },
  "empty-values": { id: "evt_1", event: "video.trending", data: { list: [], text: "" } },
};

console.debug = console.error = () => {};
const tag = (text, encoding, secret = SECRET) => createHmac("sha256", secret).update(text).digest(encoding);
const privateKey = (seed) => createPrivateKey({
  key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.from(seed)]), format: "der", type: "pkcs8",
});
const publicKey = createPublicKey(privateKey(SEED)).export({ format: "der", type: "spki" }).subarray(-32).toString("hex");
const p256Public = Buffer.concat([
  Buffer.from("3059301306072a8648ce3d020106082a8648ce3d030107034200", "hex"), p256.getPublicKey(Buffer.from(SEED), false),
]).toString("base64");
const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const base64url = (text) => Buffer.from(text).toString("base64url");
/** Of a seed: the public key in JSON, without and with its name, the thumbprint (RFC 7638). */
const jwk = (seed = SEED) => {
  const point = Buffer.from(p256.getPublicKey(Buffer.from(seed), false));
  const bare = { crv: "P-256", kty: "EC", x: base64url(point.subarray(1, 33)), y: base64url(point.subarray(33)) };
  return { ...bare, kid: createHash("sha256").update(JSON.stringify(bare)).digest("base64url") };
};
const HEAD = { alg: "ES256", kid: jwk().kid, typ: "JWT" };
const claims = (body, at = NOW) => ({ iat: at, request_body_sha256: sha256(body) });
const es256 = (text, seed = SEED) => Buffer.from(p256.sign(Buffer.from(text), Buffer.from(seed), { lowS: false }));
/** Head and claims are objects, or JSON in other spellings. */
const token = (head, claims, signed = es256) => {
  const text = [head, claims].map((part) => base64url(typeof part === "string" ? part : JSON.stringify(part))).join(".");
  return `${text}.${base64url(signed(text))}`;
};
/** By SignJWT of jose 6.2.18, from HEAD and the claims of "an-event". It draws a random number for each signature. */
const BY_JOSE = "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFURl9nNDBKTVNJa0NTVU9oeWpjQXh4UzdPSWZ5dDloX3dHMG8zcThZQlUiLCJ0eXAiOiJKV1QifQ.eyJpYXQiOjE3MDAwMDAwMDAsInJlcXVlc3RfYm9keV9zaGEyNTYiOiI0ZGY1ZTQ5Y2U3Yjk3NDFmZGNlMjY0MTE1M2I0M2M5MWQ4MWFiNWEzM2IzZTExYmRmODU5ZGMxM2Q5NmEwNDA2In0.EK7WihIWT0vAhM01LdCiuNfniXxod1GCEWRI0BHnE981yEP-N-lfQn74EGoEKyU-TbsXfDHBvH_SCZ9tckYUjg";
const negated = (signature) => {
  const { r, s } = p256.Signature.fromBytes(signature, "compact");
  return Buffer.from(new p256.Signature(r, p256.Point.Fn.ORDER - s).toBytes("compact"));
};
const brokenTokens = (body, good) => {
  const own = claims(body), head = JSON.stringify(HEAD), text = JSON.stringify(own);
  const [, , signature] = good.split(".");
  const front = good.slice(0, -signature.length), bytes = Buffer.from(signature, "base64url");
  const pem = createPublicKey({ key: jwk(), format: "jwk" }).export({ format: "pem", type: "spki" });
  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const lastBits = signature.slice(0, -1) + ALPHABET[ALPHABET.indexOf(signature.at(-1)) ^ 1];
  const foreign = SEED.replace("private", "another");
  return {
    "signature-malformed": {
      "alg-none": token({ ...HEAD, alg: "none" }, own, () => ""),
      "hmac-by-the-public-key": token({ ...HEAD, alg: "HS256" }, own, (text) => createHmac("sha256", pem).update(text).digest()),
      "no-name-of-a-key": token({ alg: "ES256", typ: "JWT" }, own),
      "no-hash": token(HEAD, { iat: NOW }),
      "no-time": token(HEAD, { request_body_sha256: own.request_body_sha256 }),
      "time-as-text": token(HEAD, { ...own, iat: String(NOW) }),
      "time-with-a-fraction": token(HEAD, { ...own, iat: NOW - 0.5 }),
      "hash-in-upper-case": token(HEAD, { ...own, request_body_sha256: own.request_body_sha256.toUpperCase() }),
      "signature-in-der": token(HEAD, own, (text) => p256.Signature.fromBytes(es256(text), "compact").toBytes("der")),
      "signature-of-zeros": front + base64url(Buffer.alloc(64)),
      "a-byte-after-the-signature": front + base64url(Buffer.concat([bytes, Buffer.alloc(1)])),
      "padding": `${good}==`,
      "padding-in-its-head": token(HEAD, own, (text) => es256(`${base64url(head)}==.${text.split(".")[1]}`)).replace(".", "==."),
      "other-bits-in-the-last-character": front + lastBits,
      "standard-alphabet": front + signature.replaceAll("-", "+").replaceAll("_", "/"),
      "a-space-inside": front + signature.replace(/(.{43})/, "$1 "),
      "an-empty-part-after": `${good}.`,
      "a-part-missing": front.slice(0, -1),
      "head-is-an-array": token(JSON.stringify(["ES256", HEAD.kid]), own),
      "algorithm-twice": token(head.replace("{", '{"alg":"none",'), own),
      "time-twice": token(HEAD, text.replace("{", '{"iat":1,')),
      "hash-twice": token(HEAD, text.replace("{", '{"request_body_sha256":"",')),
      "text-after-the-claims": token(HEAD, `${text} {}`),
      "longer-than-4096": token(HEAD, { ...own, sub: "x".repeat(3000) }),
    },
    "signature-none": {
      "alg-none-and-a-signature": token({ ...HEAD, alg: "none" }, own),
      "another-algorithm-named": token({ ...HEAD, alg: "ES384" }, own),
      "algorithm-in-lower-case": token({ ...HEAD, alg: "es256" }, own),
      "another-name-of-the-key": token({ ...HEAD, kid: jwk(foreign).kid }, own),
      "an-unknown-extension": token({ ...HEAD, crit: ["exp"], exp: NOW }, own),
    },
    "signature-wrong": {
      "a-key-in-its-head": token({ ...HEAD, jwk: jwk(foreign) }, own, (text) => es256(text, foreign)),
      "another-timestamp": `${token(HEAD, claims(body, NOW + 1)).split(".").slice(0, 2).join(".")}.${signature}`,
      "hash-of-another-body": token(HEAD, claims(`${body} `)),
    },
  };
};
/** The same signature in other forms of ASN.1, none of them DER, and as two numbers; and the signature of zeros. */
const otherForms = (signature) => {
  const der = Buffer.from(signature, "base64");
  const wrapped = (...bytes) => Buffer.concat(bytes.map((part) => Buffer.from(part))).toString("base64");
  const { r, s } = p256.Signature.fromBytes(der, "der");
  const number = (value) => Buffer.from(value.toString(16).padStart(64, "0"), "hex");
  return {
    "a-length-in-two-bytes": wrapped([0x30, 0x81], der.subarray(1)),
    "a-byte-after-the-numbers": wrapped(der, [0]),
    "a-zero-more-in-front-of-a-number": wrapped([0x30, der[1] + 1, 2, der[3] + 1, 0], der.subarray(4)),
    "two-numbers-side-by-side": wrapped(number(r), number(s)),
    "zeros": wrapped([0x30, 6, 2, 1, 0, 2, 1, 0]),
  };
};
/** The same signature with its number plus the order of the group, as RFC 8032, section 5.1.7 forbids. */
const malleated = (signature) => {
  const order = 2n ** 252n + 27742317777372353535851937790883648493n;
  const number = BigInt(`0x${Buffer.from(signature.slice(64), "hex").reverse().toString("hex")}`) + order;
  return signature.slice(0, 64) + Buffer.from(number.toString(16).padStart(64, "0"), "hex").reverse().toString("hex");
};
const version = (name) => JSON.parse(readFileSync(join(process.cwd(), "node_modules", name, "package.json"), "utf8")).version;

const shopify = () => {
  require("@shopify/shopify-api/adapters/node");
  const { shopifyApi } = require("@shopify/shopify-api");
  const api = shopifyApi({
    apiKey: "key", apiSecretKey: SECRET, scopes: [], hostName: "example.org", apiVersion: "2026-01", isEmbeddedApp: false,
    logger: { log: () => {} },
  });
  return async ({ headers, body }) => {
    const rawRequest = { method: "POST", url: "/hooks", headers };
    return (await api.webhooks.validate({ rawBody: body, rawRequest, rawResponse: {} })).valid;
  };
};

const PROFILES = {
  shopify: {
    library: "@shopify/shopify-api", what: "webhooks.validate", check: shopify,
    headers: (body, secret) => ({
      "x-shopify-hmac-sha256": tag(body, "base64", secret), "x-shopify-topic": "orders/create",
      "x-shopify-webhook-id": "w_1", "x-shopify-shop-domain": "hookproof.myshopify.com", "x-shopify-api-version": "2026-01",
    }),
    id: "w_1", signature: "x-shopify-hmac-sha256", encoding: "base64",
  },
  slack: {
    library: "@slack/bolt", what: "verifySlackRequest",
    check: () => {
      const { isValidSlackRequest } = require("@slack/bolt/dist/receivers/verify-request");
      return ({ headers, body, now }) => {
        const typed = { ...headers, "x-slack-request-timestamp": Number(headers["x-slack-request-timestamp"]) };
        return isValidSlackRequest({ signingSecret: SECRET, body, headers: typed, nowMilliseconds: now * 1000 });
      };
    },
    headers: (body, secret, at = NOW) =>
      ({ "x-slack-signature": `v0=${tag(`v0:${at}:${body}`, "hex", secret)}`, "x-slack-request-timestamp": String(at) }),
    signature: "x-slack-signature", stamped: true,
  },
  zoom: {
    library: "@zoom/rivet", what: "AwsLambdaReceiver, which looks at no time",
    check: () => {
      const { AwsLambdaReceiver } = require("@zoom/rivet/meetings");
      const receiver = new AwsLambdaReceiver({ webhooksSecretToken: SECRET });
      receiver.init({ eventEmitter: { emit: async () => {} } });
      return async ({ headers, body }) => (await receiver.start()({ headers, body }, {})).statusCode === 200;
    },
    headers: (body, secret, at = NOW) =>
      ({ "x-zm-signature": `v0=${tag(`v0:${at}:${body}`, "hex", secret)}`, "x-zm-request-timestamp": String(at) }),
    signature: "x-zm-signature", stamped: true,
  },
  line: {
    library: "@line/bot-sdk", what: "validateSignature",
    check: async () => {
      const { validateSignature } = await import(join(process.cwd(), "node_modules/@line/bot-sdk/dist/index.js"));
      return ({ headers, body }) => validateSignature(body, SECRET, headers["x-line-signature"]);
    },
    headers: (body, secret) => ({ "x-line-signature": tag(body, "base64", secret) }),
    signature: "x-line-signature", encoding: "base64",
  },
  linear: {
    library: "@linear/sdk", what: "LinearWebhookClient.verify",
    check: async () => {
      const { LinearWebhookClient } = await import(join(process.cwd(), "node_modules/@linear/sdk/dist/webhooks/index.mjs"));
      const client = new LinearWebhookClient(SECRET);
      return ({ headers, body }) => client.verify(Buffer.from(body), headers["linear-signature"]);
    },
    headers: (body, secret) =>
      ({ "linear-signature": tag(body, "hex", secret), "linear-delivery": "d_1", "linear-event": "Issue" }),
    body: (body) => ({ ...body, webhookTimestamp: NOW * 1000 + 250 }),
    id: "d_1", signature: "linear-signature", signedAt: NOW, tolerance: 60,
  },
  meta: {
    library: "@octokit/webhooks-methods", what: "verify, since no library of Meta verifies",
    check: async () => {
      const octokit = await import(join(process.cwd(), "node_modules/@octokit/webhooks-methods/dist-node/index.js"));
      return ({ headers, body }) => octokit.verify(SECRET, body, headers["x-hub-signature-256"]);
    },
    headers: (body, secret) => ({ "x-hub-signature-256": `sha256=${tag(body, "hex", secret)}` }),
    signature: "x-hub-signature-256",
  },
  discord: {
    library: "discord-interactions", what: "verifyKey, which looks at no time",
    check: () => {
      const { verifyKey } = require("discord-interactions");
      return ({ headers, body }) => verifyKey(body, headers["x-signature-ed25519"], headers["x-signature-timestamp"], publicKey);
    },
    headers: (body, secret, at = NOW) => {
      const seed = secret === OTHER ? SEED.replace("private", "another") : SEED;
      const signature = sign(null, Buffer.from(`${at}${body}`), privateKey(seed)).toString("hex");
      return { "x-signature-ed25519": signature, "x-signature-timestamp": String(at) };
    },
    keys: { secrets: [publicKey], private_keys: [`whsk_${Buffer.from(SEED).toString("base64")}`] },
    signature: "x-signature-ed25519", stamped: true, malleated,
  },
  plaid: {
    library: "jose",
    what: "jwtVerify as Plaid's documents call it, with maxTokenAge 5 min, which takes no token from ahead (ours takes 300 s, as clocks differ)",
    signer: () => `npm @noble/curves ${version("@noble/curves")}, after RFC 6979, and once by jose`,
    check: async () => {
      const { decodeProtectedHeader, importJWK, jwtVerify } = await import(join(process.cwd(), "node_modules/jose/dist/webapi/index.js"));
      const key = await importJWK({ ...jwk(), alg: "ES256" });
      return async ({ headers, body }) => {
        const given = headers["plaid-verification"];
        const { alg, kid } = decodeProtectedHeader(given);
        if (alg !== "ES256" || kid !== HEAD.kid) return false;
        const { payload } = await jwtVerify(given, key, { maxTokenAge: "5 min" });
        return payload.request_body_sha256 === sha256(body);
      };
    },
    headers: (body, secret, at = NOW) => {
      const seed = secret === OTHER ? SEED.replace("private", "another") : SEED;
      return { "plaid-verification": token(HEAD, claims(body, at), (text) => es256(text, seed)) };
    },
    keys: { secrets: [JSON.stringify(jwk())], private_keys: [`whsk_${Buffer.from(SEED).toString("base64")}`] },
    tokens: { "by-jose": () => BY_JOSE, "the-other-s": (body) => token(HEAD, claims(body), (text) => negated(es256(text))) },
    signature: "plaid-verification", signedAt: NOW, broken: brokenTokens,
  },
  sendgrid: {
    library: "@sendgrid/eventwebhook", what: "EventWebhook.verifySignature, which looks at no time",
    signer: () => `npm @noble/curves ${version("@noble/curves")}, after RFC 6979`,
    check: () => {
      const { EventWebhook } = require("@sendgrid/eventwebhook");
      const library = new EventWebhook();
      const key = library.convertPublicKeyToECDSA(p256Public);
      const name = "x-twilio-email-event-webhook";
      return ({ headers, body }) => library.verifySignature(key, body, headers[`${name}-signature`], headers[`${name}-timestamp`]);
    },
    headers: (body, secret, at = NOW) => {
      const seed = secret === OTHER ? SEED.replace("private", "another") : SEED;
      const signature = p256.sign(Buffer.from(`${at}${body}`), Buffer.from(seed), { lowS: false, format: "der" });
      const name = "x-twilio-email-event-webhook";
      return { [`${name}-signature`]: Buffer.from(signature).toString("base64"), [`${name}-timestamp`]: String(at) };
    },
    keys: { secrets: [p256Public], private_keys: [`whsk_${Buffer.from(SEED).toString("base64")}`] },
    signature: "x-twilio-email-event-webhook-signature", encoding: "der", stamped: true,
  },
  hubspot: {
    library: "@hubspot/api-client", what: "Signature.isValid, v3",
    check: () => {
      const { Signature } = require("@hubspot/api-client");
      return ({ headers, body, url, method }) => Signature.isValid({
        method, url, requestBody: body, clientSecret: SECRET, signatureVersion: "v3",
        signature: headers["x-hubspot-signature-v3"], timestamp: Number(headers["x-hubspot-request-timestamp"]),
      });
    },
    headers: (body, secret, at = NOW) => ({
      "x-hubspot-signature-v3": tag(`POST${URL}${body}${at * 1000 + 250}`, "base64", secret),
      "x-hubspot-request-timestamp": String(at * 1000 + 250),
    }),
    signature: "x-hubspot-signature-v3", encoding: "base64", stamped: true, addressed: true,
  },
  square: {
    library: "square", what: "WebhooksHelper.verifySignature",
    check: () => {
      const { WebhooksHelper } = require("square");
      return ({ headers, body, url }) => WebhooksHelper.verifySignature({
        requestBody: body, signatureHeader: headers["x-square-hmacsha256-signature"], signatureKey: SECRET, notificationUrl: url,
      });
    },
    headers: (body, secret) => ({ "x-square-hmacsha256-signature": tag(URL + body, "base64", secret) }),
    signature: "x-square-hmacsha256-signature", encoding: "base64", addressed: true,
  },
  paddle: {
    library: "@paddle/paddle-node-sdk", what: "webhooks.isSignatureValid",
    check: () => {
      const { Paddle } = require("@paddle/paddle-node-sdk");
      const client = new Paddle("key");
      return ({ headers, body }) => client.webhooks.isSignatureValid(body, SECRET, headers["paddle-signature"]);
    },
    headers: (body, secret, at = NOW) => ({ "paddle-signature": `ts=${at};h1=${tag(`${at}:${body}`, "hex", secret)}` }),
    signature: "paddle-signature", stamped: true, tolerance: 5,
  },
  twilio: {
    library: "twilio", what: "validateRequest and validateRequestWithBody",
    check: () => {
      const { validateRequest, validateRequestWithBody } = require("twilio");
      return ({ headers, body, url, sent }) => {
        const signature = headers["x-twilio-signature"];
        return headers["content-type"] === FORM ? validateRequest(SECRET, signature, url, fields(body))
          : validateRequestWithBody(SECRET, signature, sent === undefined ? url : digested(url, sent), body);
      };
    },
    headers: (body, secret = SECRET, url = URL) => {
      const signed = body.startsWith("{") ? digested(url, body) : url + pairs(body);
      const type = body.startsWith("{") ? "application/json" : FORM;
      return { "x-twilio-signature": createHmac("sha1", secret).update(signed).digest("base64"), "content-type": type };
    },
    forms: {
      "a-form": "To=%2B18005551212&MessageSid=SM1&Body=caf%C3%A9+%26+more&From=%2B14158675309",
      "an-empty-value-in-a-form": "MessageSid=SM1&Body=&Empty",
      "two-values-in-a-form": "MessageSid=SM1&MediaUrl=b&MediaUrl=a",
    },
    signature: "x-twilio-signature", encoding: "base64", addressed: true,
  },
};

/** Served, and without vectors here. */
const SERVED = {
  "standard-webhooks": {
    library: "svix",
    check: () => {
      const { Webhook } = require("svix");
      return ({ headers, body }) => Boolean(new Webhook(WHSEC).verify(body, headers)) || true;
    },
  },
  stripe: {
    library: "stripe",
    check: () => {
      const client = require("stripe")("key");
      return ({ headers, body }) => client.webhooks.signature.verifyHeader(body, headers["stripe-signature"], SECRET, 300);
    },
  },
  github: {
    library: "@octokit/webhooks-methods",
    check: async () => {
      const octokit = await import(join(process.cwd(), "node_modules/@octokit/webhooks-methods/dist-node/index.js"));
      return ({ headers, body }) => octokit.verify(SECRET, body, headers["x-hub-signature-256"]);
    },
  },
};

/** Express and its kind give a body as text, and join or drop repeated headers as Node does. */
async function serve(profile, port) {
  const of = { ...PROFILES, ...SERVED }[profile];
  const check = await of.check();
  createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk)).on("end", async () => {
      const { headers, method } = request, body = Buffer.concat(chunks).toString();
      const url = `http://${headers.host}${request.url}`, now = Date.now() / 1000;
      let accepted = false;
      try { accepted = Boolean(await check({ headers, body, url, method, now })); } catch { /* A refusal. */ }
      response.writeHead(accepted ? 204 : 401).end();
    });
  }).listen(Number(port), "127.0.0.1", () => process.stdout.write(`${of.library}@${version(of.library)}\n`));
}

const FORM = "application/x-www-form-urlencoded";
const digested = (url, body) => `${url}&bodySHA256=${createHash("sha256").update(body).digest("hex")}`;
const fields = (form) => {
  const all = new URLSearchParams(form);
  return Object.fromEntries([...all.keys()].map((name) => [name, all.getAll(name).length > 1 ? all.getAll(name) : all.get(name)]));
};

const pairs = (form) =>
  Object.entries(fields(form)).sort().map(([name, values]) => [values].flat().sort().map((value) => name + value).join("")).join("");

const RealDate = Date;
class FixedDate extends RealDate {
  constructor(...args) { super(...(args.length ? args : [FixedDate.at * 1000])); }
  static now() { return FixedDate.at * 1000; }
}

async function judged(check, one, sent) {
  FixedDate.at = one.now;
  globalThis.Date = FixedDate;
  try {
    const headers = Object.fromEntries(one.headers);
    return Boolean(await check({ headers, body: one.body, now: one.now, url: one.url, method: one.method, sent }));
  } catch { return false; } finally { globalThis.Date = RealDate; }
}

if (place === "serve") await serve(process.argv[3], process.argv[4]);
for (const [profile, of] of Object.entries(place === "serve" ? {} : PROFILES).filter(([name]) => [name, undefined].includes(process.argv[3]))) {
  const { headers, id = "evt_1", signature, stamped, tolerance = 300 } = of;
  const signedAt = stamped ? NOW : (of.signedAt ?? null);
  const text = (body) => JSON.stringify(of.body ? of.body(body) : body);
  const vector = (name, head, body, rest) => ({
    name, profile, ...(of.keys ?? { secrets: [SECRET] }), now: NOW, ...(of.addressed && { method: "POST", url: URL }),
    headers: Object.entries(head), body, ...rest,
  });
  const vectors = Object.entries(BODIES).map(([name, body]) =>
    vector(name, headers(text(body)), text(body), { valid: true, id, signed_at: signedAt }));
  const body = text(BODIES["an-event"]);
  const good = headers(body);
  const invalid = (name, head, rule, rest = {}) => vectors.push(vector(name, head, body, { valid: false, rule, ...rest }));
  const changed = (change) => ({ ...good, [signature]: change(good[signature]) });
  invalid("another-secret", headers(body, OTHER), "signature-wrong");
  invalid("another-body", good, "signature-wrong", { body: body.replace("1200000", "1200001") });
  invalid("no-signature", Object.fromEntries(Object.entries(good).filter(([name]) => name !== signature)), "header-missing");
  invalid("truncated", changed((text) => text.slice(0, -4)), "signature-malformed");
  if (of.encoding === "der") {
    for (const [name, form] of Object.entries(otherForms(good[signature]))) {
      invalid(name, changed(() => form), "signature-malformed");
    }
  } else {
    invalid("a-byte-more", changed((text) => of.encoding ? text.replace(/=$/, "A") : `${text}00`), "signature-malformed");
  }
  invalid("in-the-other-case", changed((text) => text.toUpperCase()), 
    of.encoding === "base64" ? "signature-wrong" : { plaid: "signature-malformed", sendgrid: "signature-malformed", discord: "signature-malformed", linear: "signature-malformed", paddle: "timestamp-malformed" }[profile] ?? "signature-none");
  for (const [name, made] of Object.entries(of.tokens ?? {})) {
    vectors.push(vector(name, { [signature]: made(body) }, body, { valid: true, id, signed_at: signedAt }));
  }
  for (const [rule, tokens] of Object.entries(of.broken?.(body, good[signature]) ?? {})) {
    for (const [name, token] of Object.entries(tokens)) invalid(name, changed(() => token), rule);
  }
  if (of.malleated) invalid("number-beyond-the-order", changed(of.malleated), "signature-wrong");
  if (of.addressed) invalid("another-url", good, "signature-wrong", { url: URL.replace("7", "8") });
  if (signedAt !== null) {
    invalid("too-old", good, "timestamp-old", { now: NOW + tolerance + 1 });
    invalid("too-early", good, "timestamp-ahead", { now: NOW - tolerance - 1 });
  }
  if (stamped) invalid("another-timestamp", { ...headers(body, SECRET, NOW + 1), [signature]: good[signature].replace(String(NOW), String(NOW + 1)) }, "signature-wrong");
  for (const [name, form] of Object.entries(of.forms ?? {})) {
    const id = `sha256:${createHash("sha256").update(pairs(form)).digest("hex")}`;
    vectors.push(vector(name, headers(form), form, { valid: true, id, signed_at: null }));
    const withPort = headers(form, SECRET, URL.replace(".org", ".org:443"));
    vectors.push(vector(`${name}-with-the-port`, withPort, form, { valid: true, id, signed_at: null }));
    vectors.push(vector(`${name}-with-another-value`, headers(form), form.replace("SM1", "SM2"), { valid: false, rule: "signature-wrong" }));
  }
  const check = await of.check();
  for (const one of vectors) {
    const accepted = await judged(check, one, one.valid ? one.body : body);
    if (!one.valid) one.library_accepts = accepted;
    else if (!accepted) throw new Error(`${profile}: ${one.name}: the library refuses it`);
  }
  const source = `${of.signer?.() ?? "Node's crypto"}, judged by npm ${of.library} ${version(of.library)}: ${of.what}`;
  writeFileSync(join(place, `${profile}.json`), JSON.stringify({ format: 1, source, vectors }, null, 2) + "\n");
  process.stdout.write(`${profile}: ${vectors.map((one) => `${one.name}=${one.valid || one.library_accepts}`).join(" ")}\n`);
}
