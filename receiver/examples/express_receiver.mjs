// A small, correct receiver of Standard Webhooks in Node (Express), with a file as its inbox.
//
//     npm install express
//     HOOK_SECRET=whsec_… node express_receiver.mjs 9000 inbox.log
//
// What matters: the body is verified as raw bytes before anything parses it; signatures are compared in constant time;
// the delivery is on disk before it is acknowledged; its id is taken once.

import { createHmac, timingSafeEqual } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer } from "node:http";
import express from "express";

const TOLERANCE_SECONDS = 300;
const BODY_BYTES_MAX = 2 * 1024 * 1024;
const READ_MS_MAX = 10_000;

const [port = "9000", file = "inbox.log"] = process.argv.slice(2);
const key = Buffer.from(process.env.HOOK_SECRET.replace(/^whsec_/, ""), "base64");

// One line for each delivery: its id, its body in base64, and a point. A line without the point was cut short by a crash or
// a full disk, and not acknowledged. Each write begins with a line of its own, so that it is not glued to such a one.
const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
const whole = lines.map((line) => line.split(" ")).filter((parts) => parts.length === 3 && parts[2] === ".");
const taken = new Map(whole.map(([id]) => [id, Promise.resolve()]));
const processed = [...taken.keys()];
const inbox = await open(file, "a", 0o600);

let batch = null;

// Everything that comes while the disk is busy goes into the next write.
function keep(line) {
  batch ??= { lines: [], written: null };
  batch.lines.push(line);
  batch.written ??= (last ?? Promise.resolve()).catch(() => {}).then(flush);
  return (last = batch.written);
}
let last = null;
async function flush() {
  const { lines } = batch;
  batch = null;
  await inbox.appendFile(`\n${lines.join("")}`);
  await inbox.datasync();
}

// The one value of a header, in visible ASCII. `rawHeaders` still knows whether it came twice.
function header(request, name) {
  const values = request.rawHeaders.filter((_, at) => at % 2 === 1 && request.rawHeaders[at - 1].toLowerCase() === name);
  return values.length === 1 && /^[\x20-\x7e]+$/.test(values[0]) ? values[0] : null;
}

function genuine(request) {
  const [id, timestamp, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => header(request, name));
  if (!id || !timestamp || !signatures) return null;
  if (!/^[\x21-\x2b\x2d\x2f-\x7e]{1,256}$/.test(id) || !/^[1-9][0-9]{0,14}$/.test(timestamp)) return null;
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return null;
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(request.body).digest();
  const fits = signatures.split(" ").some((one) => {
    const [version, encoded = "", ...more] = one.split(",");
    const given = Buffer.from(encoded, "base64");
    // Node decodes whatever it can; what it makes of that must be what came.
    const canonical = more.length === 0 && given.toString("base64") === encoded;
    return version === "v1" && canonical && given.length === expected.length && timingSafeEqual(given, expected);
  });
  return fits ? id : null;
}

const app = express();
app.disable("x-powered-by");

// The body as it comes, and no more of it than is allowed: `express.raw` would inflate it, and read a long one to its end.
function raw(request, response, next) {
  const pieces = [];
  let bytes = 0;
  request.on("data", (piece) => {
    bytes += piece.length;
    if (bytes <= BODY_BYTES_MAX) return pieces.push(piece);
    request.removeAllListeners("data").pause();
    response.status(413).set("Connection", "close").once("finish", () => request.destroy()).send("too long\n");
  });
  request.on("end", () => {
    request.body = Buffer.concat(pieces);
    next();
  });
}

app.post("/hook", raw, async (request, response) => {
  const id = genuine(request);
  if (id === null) return response.status(401).send("not genuine\n");
  try {
    // The map is asked and written without a pause between, so two copies can't both be the first.
    if (!taken.has(id)) taken.set(id, keep(`${id} ${request.body.toString("base64")} .\n`).then(() => work(id)));
    await taken.get(id);
    response.status(204).end();
  } catch {
    taken.delete(id);
    response.status(503).set("Retry-After", "5").send("come back later\n");
  }
});
app.all("/hook", (request, response) => response.status(405).set("Allow", "POST").send("expected POST\n"));

// For the certification. Keep it from the world.
app.get("/effects", (request, response) => response.type("text/plain").send(processed.map((id) => `${id}\n`).join("")));

// No stack trace for strangers.
app.use((error, request, response, next) => {
  if (response.headersSent) return next(error);
  response.status(error.status >= 400 && error.status < 500 ? error.status : 500).send("no\n");
});

// The real work belongs in a queue of its own; this only counts it.
function work(id) {
  processed.push(id);
}

const server = createServer({ requestTimeout: READ_MS_MAX, headersTimeout: READ_MS_MAX, connectionsCheckingInterval: 1_000, maxHeaderSize: 30 * 1024 }, app);
server.listen(Number(port), "127.0.0.1");
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    server.close(() => inbox.close().then(() => process.exit(0)));
    server.closeIdleConnections();
  });
}
