// Starts the real server and a real browser for the browser tests.

import { spawn } from "node:child_process";
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, resolve as resolvePath } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { SCRIPT } from "./seeds.mjs";

const BROWSERS = [process.env.WINDLASS_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Allows longer loops than the defaults and retains all their iterations. */
const ENVIRONMENT = { WINDLASS_MAX_LOOP_ITERATIONS: "100000", WINDLASS_HISTORY_NEWEST_ITERATIONS: "100000", WINDLASS_TEST_HOOK: "of the tests" };

/** Agents use a scripted model, with prices so that it has a cost. */
const FILES = {
  "windlass.toml": '[model]\nmodel = "scripted:script.yaml"\n\n[prices.scripted]\ninput = 3.0\noutput = 15.0\n',
  "script.yaml": SCRIPT,
};

/** Runs a command as on a terminal. */
const ON_TERMINAL = ["python3", "-c", "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"];

/** Starts the server on a free port, in a temporary folder. On a terminal it prints a link that signs in. */
export async function startServer(program, { command = ["serve", "--bind", "127.0.0.1:0", "--json"], terminal = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "windlass-ui-"));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text);
  const [first, ...words] = [...(terminal ? ON_TERMINAL : []), program, ...command, "--store", join(folder, "store")];
  const child = spawn(first, words, { cwd: folder, stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...ENVIRONMENT } });
  let errors = "";
  child.stderr.on("data", (chunk) => (errors += chunk));
  const startup = await new Promise((resolve, reject) => {
    let text = "";
    createInterface({ input: child.stdout }).on("line", (line) => {
      text += line;
      const link = /(http:\/\/[\d.:]+)\/#sign-in=\S+/.exec(line);
      if (link) resolve({ address: link[1], link: link[0], token_file: join(folder, "store/token") });
      try {
        resolve(JSON.parse(text));
      } catch {
        // The JSON document is not complete yet.
      }
    });
    child.on("exit", (code) => reject(new Error(`the server exited with ${code}: ${errors}${text}`)));
    child.on("error", reject);
  });
  const token = startup.token_file ? readFileSync(resolvePath(folder, startup.token_file), "utf8").trim() : null;
  const stop = async () => {
    const exited = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGTERM");
    const hard = setTimeout(() => child.kill("SIGKILL"), 5000);
    await exited;
    clearTimeout(hard);
    rmSync(folder, { recursive: true, force: true });
  };
  return { address: startup.address, link: startup.link, token, pid: child.pid, stop, errors: () => errors };
}

/** Serves `ui/dist` in front of a server that embeds an older web UI, for development. */
export async function withFreshUi(server) {
  const dist = fileURLToPath(new URL("../../dist", import.meta.url));
  const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
  const policy = (await fetch(server.address)).headers.get("content-security-policy");
  const proxy = createServer((request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    const file = extname(path) ? join(dist, path) : join(dist, "index.html");
    if (!/^\/(api|hooks|healthz|readyz|metrics)/.test(path) && existsSync(file)) {
      const compressed = existsSync(`${file}.br`) && /\bbr\b/.test(request.headers["accept-encoding"] ?? "");
      const headers = { "content-type": types[extname(file)], "content-security-policy": policy };
      response.writeHead(200, compressed ? { ...headers, "content-encoding": "br" } : headers);
      createReadStream(compressed ? `${file}.br` : file).pipe(response);
      return;
    }
    const to = new URL(server.address);
    const headers = { ...request.headers, host: to.host, ...(request.headers.origin ? { origin: to.origin } : {}) };
    const forwarded = forward({ host: to.hostname, port: to.port, path: request.url, method: request.method, headers }, (reply) => {
      response.writeHead(reply.statusCode, reply.headers);
      response.flushHeaders();
      reply.pipe(response);
    });
    forwarded.on("error", () => response.destroy());
    request.pipe(forwarded);
    response.on("close", () => forwarded.destroy());
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${proxy.address().port}`;
  const stop = async () => {
    proxy.closeAllConnections();
    proxy.close();
    await server.stop();
  };
  return { ...server, address, link: server.link?.replace(server.address, address), stop };
}

/** An API client. */
export function client({ address, token }) {
  return async (method, path, body) => {
    const headers = { Authorization: `Bearer ${token}`, Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(`${address}/api/v1${path}`, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await response.text();
    const value = text === "" ? null : JSON.parse(text);
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 400)}`);
    return value;
  };
}

export async function startBrowser() {
  const executablePath = BROWSERS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("Chromium not found: apt-get install chromium");
  return chromium.launch({ executablePath, args: FLAGS });
}

/** Polls until the condition holds. Events would be better, but they belong to another process. */
export async function until(what, check, ms = 15_000) {
  const end = Date.now() + ms;
  for (;;) {
    const result = await check();
    if (result) return result;
    if (Date.now() > end) throw new Error(`timeout after ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

export function equal(actual, expected, what = "") {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}

export function holds(value, what) {
  if (!value) throw new Error(what);
}
