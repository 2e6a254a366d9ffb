// Makes the vectors that come from JavaScript: what public libraries sign, and what they say of requests with one flaw.
//
//     npm install svix @octokit/webhooks-methods     (in a folder of its own, from which this is run)
//     node libraries.mjs PATH/TO/scenarios/vectors
//
// The files are data of the repository; this script is kept to show where they come from, and nothing runs it in a build.

import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "x.js"));
const { Webhook } = require("svix");
const octokit = await import(join(process.cwd(), "node_modules/@octokit/webhooks-methods/dist-node/index.js"));

const place = process.argv[2];
const NOW = 1_700_000_000;
const SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OTHER = "whsec_b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI=";
const BODIES = {
  "an-event": '{"id":"evt_1","type":"video.trending","data":{"views":1200000}}',
  "key-order-and-escapes": '{"b":"\\u0041\\/","a":1,"id":"evt_1"}',
  "text-beyond-ascii": '{"id":"evt_1","title":"caf\u00e9 \u{1f680}"}',
};

function version(name) {
  return JSON.parse(readFileSync(join(process.cwd(), "node_modules", name, "package.json"), "utf8")).version;
}

function at(seconds, work) {
  const real = Date.now;
  Date.now = () => seconds * 1000;
  try { return work(); } finally { Date.now = real; }
}

function write(name, source, vectors) {
  writeFileSync(join(place, name), JSON.stringify({ format: 1, source, vectors }, null, 2) + "\n");
}

function fromSvix() {
  const signed = (body, id = "evt_1", secret = SECRET) => new Webhook(secret).sign(id, new Date(NOW * 1000), body);
  const headers = (signature, id = "evt_1", timestamp = String(NOW)) =>
    [["webhook-id", id], ["webhook-timestamp", timestamp], ["webhook-signature", signature]];
  const vector = (name, head, body, rest) =>
    ({ name, profile: "standard-webhooks", secrets: [SECRET], now: NOW, headers: head, body, ...rest });
  const valid = (name, head, body, rest = {}) => vector(name, head, body, { valid: true, id: "evt_1", signed_at: NOW, ...rest });
  const invalid = (name, head, body, rule, rest = {}) => vector(name, head, body, { valid: false, rule, ...rest });

  const body = BODIES["an-event"];
  const good = signed(body);
  const vectors = Object.entries(BODIES).map(([name, body]) => valid(name, headers(signed(body)), body));
  vectors.push(
    valid("first-of-two-signatures", headers(`${good} ${signed(body, "evt_1", OTHER)}`), body),
    valid("beside-a-later-version", headers(`v9,abc ${good}`), body),
    invalid("another-secret", headers(signed(body, "evt_1", OTHER)), body, "signature-wrong"),
    invalid("another-body", headers(good), body + "\n", "signature-wrong"),
    invalid("another-id", headers(good, "evt_2"), body, "signature-wrong"),
    invalid("timestamp-with-letters-after-it", headers(good, "evt_1", `${NOW}abc`), body, "timestamp-malformed"),
    invalid("timestamp-with-an-exponent", headers(good, "evt_1", `${NOW}e0`), body, "timestamp-malformed"),
    invalid("too-old", headers(good), body, "timestamp-old", { now: NOW + 301 }),
    invalid("too-early", headers(good), body, "timestamp-ahead", { now: NOW - 301 }),
  );
  for (const one of vectors) {
    const accepted = at(one.now, () => {
      try { new Webhook(one.secrets[0]).verify(one.body, Object.fromEntries(one.headers)); return true; } catch { return false; }
    });
    if (!one.valid) one.library_accepts = accepted;
    else if (!accepted) throw new Error(`${one.name}: the library refuses its own signature`);
  }
  write("svix-node.json", `npm svix ${version("svix")}: Webhook.sign, and what Webhook.verify says`, vectors);
}

async function fromOctokit() {
  const headers = (signature) =>
    [["x-hub-signature-256", signature], ["x-github-event", "push"], ["x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"]];
  const vector = (name, head, body, rest) =>
    ({ name, profile: "github", secrets: [SECRET], now: NOW, headers: head, body, ...rest });
  const vectors = [];
  for (const [name, body] of Object.entries(BODIES)) {
    const rest = { valid: true, id: "72d3162e-cc78-11e3-81ab-4c9367dc0958", signed_at: null };
    vectors.push(vector(name, headers(await octokit.sign(SECRET, body)), body, rest));
  }
  const body = BODIES["an-event"];
  const good = await octokit.sign(SECRET, body);
  const flaws = [
    ["another-secret", headers(await octokit.sign(OTHER, body)), "signature-wrong"],
    ["without-its-algorithm", headers(good.slice("sha256=".length)), "signature-none"],
    ["the-old-algorithm", headers(good.replace("sha256", "sha1")), "signature-none"],
    ["truncated", headers(good.slice(0, 20)), "signature-malformed"],
    ["upper-case", headers("sha256=" + good.slice("sha256=".length).toUpperCase()), "signature-malformed"],
    ["without-its-id", headers(good).slice(0, 2), "header-missing"],
  ];
  for (const [name, head, rule] of flaws) vectors.push(vector(name, head, body, { valid: false, rule }));
  for (const one of vectors) {
    const signature = Object.fromEntries(one.headers)["x-hub-signature-256"];
    const accepted = await octokit.verify(SECRET, one.body, signature).catch(() => false);
    if (!one.valid) one.library_accepts = accepted;
    else if (!accepted) throw new Error(`${one.name}: the library refuses its own signature`);
  }
  write("octokit-node.json", `npm @octokit/webhooks-methods ${version("@octokit/webhooks-methods")}: sign, and what verify says`, vectors);
}

fromSvix();
await fromOctokit();
