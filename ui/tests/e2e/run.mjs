// Usage: node tests/e2e/run.mjs PROGRAM [PART OF A CASE NAME]
// Drives the system's Chromium against a newly started server.

import { mkdirSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { CASES } from "./cases.mjs";
import { client, startBrowser, startServer, until, withFreshUi } from "./harness.mjs";
import { DEFINITIONS } from "./seeds.mjs";

const program = process.argv[2] ?? process.env.WINDLASS_BIN;
const filter = process.argv[3] ?? "";
if (!program) {
  console.error("usage: node tests/e2e/run.mjs target/debug/windlass [CASE]");
  process.exit(3);
}
const out = fileURLToPath(new URL("out", import.meta.url));
/** The time limit is for an idle machine; it grows with the load per core. */
const load = Math.max(1, loadavg()[0] / availableParallelism());
/** The time limit is for a release build; the server of a debug build is several times slower. */
const buildFactor = /[\\/]debug[\\/]/.test(program) ? 4 : 1;
const limits = { loop_ms: Math.round(Number(process.env.WINDLASS_LOOP_MS ?? 200) * load * buildFactor) };

const serve = async (options) => {
  const started = await startServer(program, options);
  return process.env.WINDLASS_FRESH_UI ? withFreshUi(started) : started;
};
const server = await serve();
const browser = await startBrowser();
const api = client(server);
let failed = 0;
try {
  for (const source of Object.values(DEFINITIONS)) await api("POST", "/definitions", { source });
  const start = async (definition, input = {}) => (await api("POST", "/runs", { definition, input })).run;
  const ended = {};
  for (const name of ["rows", "flaky", "uneven", "many", "drafts"]) ended[name] = await start(name);
  for (const run of Object.values(ended)) {
    await until(`${run} ends`, async () => ["succeeded", "failed"].includes((await api("GET", `/runs/${run}`)).status), 60_000);
  }
  for (const [name, test] of Object.entries(CASES)) {
    if (!name.includes(filter)) continue;
    failed += (await runCase(name, test, { api, start, ended })) ? 0 : 1;
  }
} finally {
  await browser.close();
  await server.stop();
}
console.log(failed === 0 ? "all cases passed" : `${failed} cases failed; see ${out}`);
process.exit(failed === 0 ? 0 : 1);

async function runCase(name, test, fixtures) {
  const start = Date.now();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  await context.grantPermissions([]);
  const problems = [];
  const watch = (page, { address } = server) => {
    page.setDefaultTimeout(10_000);
    page.on("pageerror", (error) => problems.push(`page error: ${error.message}`));
    page.on("console", (message) => {
      // Reports of the content security policy and of React.
      const text = message.text();
      if (message.type() === "error" && !/status of (401|403|409|422)|ERR_INTERNET_DISCONNECTED|ERR_NETWORK|Failed to fetch/.test(text)) problems.push(`console error: ${text}`);
    });
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(address) && !url.startsWith("data:")) problems.push(`request to another host: ${url}`);
    });
    return page;
  };
  /** A page of another browser. */
  const fresh = async (other) => watch(await (await browser.newContext()).newPage(), other);
  const signIn = async (context, token = server.token) => {
    const response = await context.request.post(`${server.address}/api/v1/session`, { headers: { Authorization: `Bearer ${token}` } });
    if (!response.ok()) throw new Error(`sign-in: ${response.status()} ${await response.text()}`);
  };
  let isSignedIn = false;
  const page = watch(await context.newPage());
  const open = async (path) => {
    if (!isSignedIn) await signIn(context);
    isSignedIn = true;
    await page.goto(server.address + path);
  };
  try {
    await test({ page, open, fresh, signIn, serve, server, limits, ...fixtures });
    if ((await page.title()) === "broken") problems.push("run data was rendered as HTML");
    if (problems.length > 0) throw new Error(problems.join("\n"));
    console.log(`  ok  ${name} (${Date.now() - start} ms)`);
    return true;
  } catch (error) {
    console.log(`FAIL  ${name} (${Date.now() - start} ms)\n      ${String(error.message ?? error).split("\n").slice(0, 8).join("\n      ")}`);
    for (const problem of problems) console.log(`      ${problem}`);
    mkdirSync(out, { recursive: true });
    await page.screenshot({ path: `${out}/${name.replace(/[^a-z0-9]+/gi, "-")}.png` }).catch(() => {});
    return false;
  } finally {
    await context.close();
  }
}
