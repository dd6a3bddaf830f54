// Usage: node tests/pictures.mjs PROGRAM
// Draws the pictures of the README from the demo: docs/images/web-ui.png and docs/images/terminal.png.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startBrowser, until } from "./e2e/harness.mjs";

const program = process.argv[2];
if (!program) {
  console.error("usage: node tests/pictures.mjs target/release/windlass");
  process.exit(3);
}
const images = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const place = mkdtempSync(join(tmpdir(), "windlass-pictures-"));
const demo = spawn(program, ["demo", "flows", "--port", "0"], { cwd: place, stdio: ["ignore", "pipe", "pipe"] });
let printed = "";
for (const stream of [demo.stdout, demo.stderr]) stream.on("data", (chunk) => (printed += chunk));

const windlass = (...words) => spawnSync(program, ["--store", "flows/.windlass", ...words], { cwd: place, encoding: "utf8" }).stdout;
const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

try {
  const address = await until("the demo is ready", async () => /web UI: (http:\S+?)\/?\s/i.exec(printed)?.[1], 120_000);
  const browser = await startBrowser();
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  const page = await context.newPage();
  await page.goto(`${address}/runs/orders`);
  await page.getByText("each").first().waitFor();
  await page.waitForTimeout(1_500);
  await page.screenshot({ path: join(images, "web-ui.png") });

  const lines = [
    ["windlass list", windlass("list")],
    ["windlass iterations orders each --failed --limit 3", windlass("iterations", "orders", "each", "--failed", "--limit", "3")],
    ["windlass status polling", windlass("status", "polling")],
  ];
  const body = lines.map(([command, output]) => `<b>$ ${escape(command)}</b>\n${escape(output.trimEnd())}`).join("\n\n");
  const style = "margin:0;padding:24px;background:#10151c;color:#d7dde5;font:14px/1.45 'DejaVu Sans Mono',monospace;display:inline-block";
  const terminal = await context.newPage();
  await terminal.setContent(`<body style="margin:0;background:#10151c"><pre style="${style}">${body}</pre></body>`);
  await terminal.locator("pre").screenshot({ path: join(images, "terminal.png") });
  await browser.close();
  console.log(`written to ${images}`);
} finally {
  demo.kill("SIGINT");
  rmSync(place, { recursive: true, force: true });
}
