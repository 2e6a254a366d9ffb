// A verification function for Standard Webhooks in Node, and around it a command for `hookproof receiver --exec`.
//
//     hookproof receiver --exec 'node verify.mjs' --secret-env HOOK_SECRET
//
// The command reads one raw HTTP request from stdin, and the secret from HOOK_SECRET. Exit code 0: genuine; 1: not genuine.

import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

const TOLERANCE_SECONDS = 300;

// `headers` has a list of values for each name in lower case; `body` is a Buffer.
function genuine(headers, body, key) {
  const one = (name, form) => {
    const values = headers.get(name) ?? [];
    return values.length === 1 && form.test(values[0]) ? values[0] : null;
  };
  // Visible ASCII. A dot separates the signed parts, so none may be in an id.
  const id = one("webhook-id", /^[\x21-\x2d\x2f-\x7e]{1,256}$/);
  const timestamp = one("webhook-timestamp", /^[1-9][0-9]{0,14}$/);
  const signatures = one("webhook-signature", /^[\x20-\x7e]+$/);
  if (id === null || timestamp === null || signatures === null) return false;
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return false;
  const tag = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  // Compared as written, so that another spelling of the same bytes is refused.
  const expected = Buffer.from(`v1,${tag}`);
  return signatures.split(" ").some((signature) => {
    const given = Buffer.from(signature);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

function parsed(request) {
  const end = request.indexOf("\r\n\r\n");
  const headers = new Map();
  // One character for each byte.
  for (const line of request.subarray(0, end).toString("latin1").split("\r\n").slice(1)) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    headers.set(name, [...(headers.get(name) ?? []), line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, "")]);
  }
  return [headers, request.subarray(end + 4)];
}

const secret = Buffer.from(process.env.HOOK_SECRET.replace(/^whsec_/, ""), "base64");
process.exit(genuine(...parsed(readFileSync(0)), secret) ? 0 : 1);
