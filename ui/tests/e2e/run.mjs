// node tests/e2e/run.mjs PROGRAM [WORDS OF A CASE]
// Drives the system's Chromium against a freshly started program.

import { mkdirSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { CASES } from "./cases.mjs";
import { client, startBrowser, startServer, until, withFreshPage } from "./harness.mjs";
import { DEFINITIONS } from "./seeds.mjs";

const program = process.argv[2] ?? process.env.WINDLASS_BIN;
const wanted = process.argv[3] ?? "";
if (!program) {
  console.error("which program? node tests/e2e/run.mjs target/debug/windlass");
  process.exit(3);
}
const out = fileURLToPath(new URL("out", import.meta.url));
/** What is promised holds for a machine that has nothing else to do: where many wait for each core, everybody waits longer. */
const busy = Math.max(1, loadavg()[0] / availableParallelism());
/** The promise is that of an optimised program; one that was built for debugging is several times slower in the server. */
const build = /[\\/]debug[\\/]/.test(program) ? 4 : 1;
const limits = { loop_ms: Math.round(Number(process.env.WINDLASS_LOOP_MS ?? 200) * busy * build) };

const started = await startServer(program);
const server = process.env.WINDLASS_FRESH_PAGE ? await withFreshPage(started) : started;
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
    if (!name.includes(wanted)) continue;
    failed += (await one(name, test, { api, start, ended })) ? 0 : 1;
  }
} finally {
  await browser.close();
  await server.stop();
}
console.log(failed === 0 ? "the page works" : `${failed} cases failed; see ${out}`);
process.exit(failed === 0 ? 0 : 1);

async function one(name, test, given) {
  const began = Date.now();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  await context.grantPermissions([]);
  const problems = [];
  const watch = (page) => {
    page.setDefaultTimeout(10_000);
    page.on("pageerror", (error) => problems.push(`an error in the page: ${error.message}`));
    page.on("console", (message) => {
      // The content security policy speaks here, and so does React.
      const text = message.text();
      if (message.type() === "error" && !/status of (401|403|409|422)|ERR_INTERNET_DISCONNECTED|ERR_NETWORK|Failed to fetch/.test(text)) problems.push(`in the console: ${text}`);
    });
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(server.address) && !url.startsWith("data:")) problems.push(`a request to another place: ${url}`);
    });
    return page;
  };
  const fresh = async () => watch(await (await browser.newContext()).newPage());
  const page = watch(await context.newPage());
  const open = async (path) => {
    await page.addInitScript((token) => sessionStorage.setItem("windlass.token", token), server.token);
    await page.goto(server.address + path);
  };
  try {
    await test({ page, open, fresh, server, limits, ...given });
    if ((await page.title()) === "broken") problems.push("data of a run were taken for HTML");
    if (problems.length > 0) throw new Error(problems.join("\n"));
    console.log(`  ok  ${name} (${Date.now() - began} ms)`);
    return true;
  } catch (error) {
    console.log(`FAIL  ${name} (${Date.now() - began} ms)\n      ${String(error.message ?? error).split("\n").slice(0, 8).join("\n      ")}`);
    for (const problem of problems) console.log(`      ${problem}`);
    mkdirSync(out, { recursive: true });
    await page.screenshot({ path: `${out}/${name.replace(/[^a-z0-9]+/gi, "-")}.png` }).catch(() => {});
    return false;
  } finally {
    await context.close();
  }
}
