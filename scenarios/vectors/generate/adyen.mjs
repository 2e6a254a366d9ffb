// Makes providers/adyen.json: notifications in Adyen's form, and what its own library says of them.
//
//     npm install @adyen/api-library@32.1.0
//     node adyen.mjs PATH/TO/scenarios/vectors/providers     (in a folder of its own, from which this is run)
//
// The signatures are made here by Node's crypto, after Adyen's documents; the first one is the documents' own.

import { createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "x.js"));
const { hmacValidator: Validator } = require("@adyen/api-library");
const { version } = JSON.parse(readFileSync(join(process.cwd(), "node_modules/@adyen/api-library/package.json"), "utf8"));
const KEY = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
const OTHER = KEY.replace("44", "45");
const PUBLISHED = "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=";
const ITEM = {
  additionalData: { hmacSignature: "" }, amount: { currency: "EUR", value: 1130 }, eventCode: "AUTHORISATION",
  eventDate: "2023-11-14T22:13:20+01:00", merchantAccountCode: "TestMerchant", merchantReference: "TestPayment-1407325143704",
  operations: ["CANCEL", "CAPTURE", "REFUND"], paymentMethod: "visa", pspReference: "7914073381342284", success: "true",
};
const text = ({ pspReference, originalReference, merchantAccountCode, merchantReference, amount, eventCode, success }) =>
  [pspReference, originalReference, merchantAccountCode, merchantReference, amount.value, amount.currency, eventCode, success]
    .map((part) => part ?? "").join(":");
const tag = (item, key = KEY) => createHmac("sha256", Buffer.from(key, "hex")).update(text(item)).digest("base64");
const signed = (item, signature = tag(item)) => ({ ...item, additionalData: { ...item.additionalData, hmacSignature: signature } });
const written = (...items) =>
  JSON.stringify({ live: "false", notificationItems: items.map((item) => ({ NotificationRequestItem: item })) });
const id = ({ pspReference, eventCode, success }) => `${pspReference}:${eventCode}:${success}`;

const vectors = [];
const vector = (name, body, rest) => vectors.push({ name, profile: "adyen", secrets: [KEY], now: 1_700_000_000, headers: [], body, ...rest });
const valid = (name, change = {}) => {
  const item = { ...ITEM, ...change };
  vector(name, written(signed(item)), { valid: true, id: id(item), signed_at: null });
};
const invalid = (name, body, rule, rest = {}) => vector(name, body, { valid: false, rule, ...rest });
const changed = (name, change) => invalid(name, written({ ...signed(ITEM), ...change }), "signature-wrong");
const carrying = (name, signature, rule) => invalid(name, written(signed(ITEM, signature)), rule);

valid("the-documents-example");
valid("an-original-reference", { originalReference: "8835511210681324", eventCode: "CAPTURE" });
valid("a-colon-in-the-merchants-reference", { merchantReference: "shop:7\\4711" });
valid("text-beyond-ascii", { merchantReference: "caf\u00e9 \u{1f680}" });
valid("an-event-that-failed", { success: "false", reason: "Refused" });
valid("a-value-as-text-and-a-flag", { amount: { currency: "EUR", value: "1130" }, success: true });
valid("null-for-none", { originalReference: null });
valid("another-case-of-the-key");
vectors.at(-1).secrets = [KEY.toLowerCase()];

invalid("another-secret", written(signed(ITEM, tag(ITEM, OTHER))), "signature-wrong");
changed("another-psp-reference", { pspReference: "7914073381342285" });
changed("an-original-reference-added", { originalReference: "8835511210681324" });
changed("another-merchant-account", { merchantAccountCode: "OtherMerchant" });
changed("another-merchant-reference", { merchantReference: "TestPayment-1407325143705" });
changed("another-value", { amount: { currency: "EUR", value: 113 } });
changed("another-currency", { amount: { currency: "USD", value: 1130 } });
changed("another-event", { eventCode: "CAPTURE" });
changed("another-success", { success: "false" });
invalid("no-signature", written({ ...ITEM, additionalData: {} }), "signature-none");
carrying("an-empty-signature", "", "signature-none");
carrying("truncated", PUBLISHED.slice(0, -4), "signature-malformed");
carrying("a-byte-more", PUBLISHED.replace(/=$/, "A"), "signature-malformed");
carrying("padding-missing", PUBLISHED.slice(0, -1), "signature-malformed");
carrying("junk-inside", PUBLISHED.replace("CzP", "C*zP"), "signature-malformed");
carrying("url-safe", PUBLISHED.replaceAll("+", "-").replaceAll("/", "_"), "signature-malformed");
carrying("in-the-other-case", PUBLISHED.toUpperCase(), "signature-wrong");
const SPLIT = { merchantReference: "shop:7" };
invalid("a-colon-moved-to-the-member-before", written({
  ...signed({ ...ITEM, ...SPLIT }), merchantAccountCode: "TestMerchant:shop", merchantReference: "7",
}), "body-malformed", { judge_accepts: true });
invalid("a-second-item-unsigned", written(signed(ITEM), { ...ITEM, pspReference: "7914073381342285", additionalData: {} }),
  "body-malformed", { judge_accepts: true });
invalid("a-signed-member-twice", written(signed(ITEM)).replace('"success"', '"success":"false","success"'),
  "body-malformed", { judge_accepts: true });

const library = new Validator();
/** Of the first item, as the documents show it. */
const judged = ({ secrets, body }) => {
  try { return library.validateHMAC(JSON.parse(body).notificationItems[0].NotificationRequestItem, secrets[0]); } catch { return false; }
};
if (tag(ITEM) !== PUBLISHED) throw new Error("the documents' example does not come out");
for (const one of vectors) {
  const accepted = judged(one);
  if (!one.valid) one.library_accepts = accepted;
  else if (!accepted) throw new Error(`${one.name}: the library refuses it`);
}
const source = `Node's crypto, judged by npm @adyen/api-library ${version}: HmacValidator.validateHMAC of the first item`;
writeFileSync(join(process.argv[2], "adyen.json"), JSON.stringify({ format: 1, source, vectors }, null, 2) + "\n");
process.stdout.write(`${vectors.map((one) => `${one.name}=${one.valid || one.library_accepts}`).join(" ")}\n`);
