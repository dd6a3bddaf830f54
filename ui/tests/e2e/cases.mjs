// Browser test cases of the web UI, by name. To add a case, add an entry.

import { equal, holds, until } from "./harness.mjs";
import { accessibilityProblems, contrastProblems } from "./accessibility.mjs";
import { DEFINITIONS, HOSTILE } from "./seeds.mjs";
import { SIGN_IN_CASES } from "./sign-in.mjs";

const row = (page, text) => page.locator("a.run-row", { hasText: text }).first();
const tab = (page, name) => page.getByRole("tab", { name, exact: true });
const button = (page, name) => page.getByRole("button", { name, exact: true });
const link = (page, name) => page.getByRole("link", { name, exact: true });

/** Scrolls through the list of iterations and compares its rows: iteration numbers, and the text of the heading. */
async function expectRows(page, expected, what) {
  const list = page.locator(".iteration-list .scroll-list");
  await list.evaluate((element) => element.scrollTo({ top: 0 }));
  const seen = new Map();
  let found = [];
  const matches = async () => {
    const { rows, end } = await list.evaluate((element) => {
      const rows = [...element.querySelectorAll("[data-index]")].map((row) => [Number(row.dataset.index), row.querySelector(".iteration-row > :first-child, h2").textContent]);
      const end = element.scrollTop + element.clientHeight >= element.scrollHeight - 1;
      element.scrollBy({ top: element.clientHeight * 0.8, behavior: "instant" });
      return { rows, end };
    });
    for (const [at, text] of rows) seen.set(at, /^\d+$/.test(text) ? Number(text) : text);
    if (!end) return false;
    found = [...seen.keys()].sort((one, other) => one - other).map((at) => seen.get(at));
    if (JSON.stringify(found) === JSON.stringify(expected)) return true;
    // The list was still changing while it was read: read it again from the top.
    seen.clear();
    await list.evaluate((element) => element.scrollTo({ top: 0 }));
    return false;
  };
  await until(`${expected.length} rows, ${what}`, matches, 30_000).catch(() => {});
  equal(found, expected, what);
}
const OTHERS = "Other iterations";
const below = (end, matches) => Array.from({ length: end }, (_, at) => at).filter(matches);
const chip = (page, name) => page.locator(".chips").getByRole("button", { name });
const FAILED = /(^|\s)Failed( \d+)?$/;

const views = (ended) => ["/runs", `/runs/${ended.rows}`, `/runs/${ended.rows}/timeline`, `/runs/${ended.rows}/loops`, `/runs/${ended.rows}/events`, `/runs/${ended.flaky}/data`, `/runs/${ended.flaky}/definition`, `/runs/${ended.rows}/journal`, `/runs/${ended.many}/loop?path=count`, `/runs/${ended.flaky}/loop?path=numbers`, "/definitions", "/definitions/rows", "/check", "/approvals", "/triggers", "/workers", "/tokens", "/audit", "/about"];

export const CASES = {
  ...SIGN_IN_CASES,

  async "runs: a new run appears immediately; filters and search apply"({ page, open, start, api }) {
    await open("/runs");
    await page.getByText("Live").waitFor();
    const run = await start("slow");
    await page.locator(`a.run-row[href$="${run}"]`).waitFor();
    await page.locator(".chips").getByRole("button", { name: "running" }).click();
    await page.locator(`a.run-row[href$="${run}"]`).waitFor();
    await page.locator(".chips").getByRole("button", { name: "cancelled" }).click();
    await page.locator(`a.run-row[href$="${run}"]`).waitFor({ state: "detached" });
    await page.locator(".chips").getByRole("button", { name: "All" }).click();
    await page.keyboard.press("/");
    await page.keyboard.type(run);
    await until("one matching run", async () => (await page.locator("a.run-row").count()) === 1);
    await until("the search in the URL", async () => page.url().includes(`search=${run}`));
    await api("POST", `/runs/${run}/cancel`, {});
    await page.locator(`a.run-row[href$="${run}"]`, { hasText: "cancelled" }).waitFor();
  },

  async "runs: status counts and waiting runs are updated live"({ page, open, start, api }) {
    await open("/runs?definition=signalled");
    await page.getByText("Live").waitFor();
    const waiting = page.locator(".chips").getByRole("button", { name: "waiting" });
    const number = async () => Number((await waiting.locator(".number").allTextContents())[0] ?? 0);
    const before = await number();
    const startedAt = Date.now();
    const run = await start("signalled");
    await page.locator(`a.run-row[href$="${run}"]`, { hasText: "waiting" }).waitFor({ timeout: 5000 });
    holds(Date.now() - startedAt < 5000, "shown before the run is evicted");
    await until("one more", async () => (await number()) === before + 1, 5000);
    await api("POST", `/runs/${run}/signal`, { name: "paid" });
    await page.locator(`a.run-row[href$="${run}"]`, { hasText: "succeeded" }).waitFor();
    await until("one less", async () => (await number()) === before, 5000);
  },

  async "runs: an ended run is removed after confirmation and disappears from every list"({ page, open, fresh, signIn, start, server, api }) {
    const run = await start("signalled");
    await api("POST", `/runs/${run}/signal`, { name: "paid" });
    await until("its end", async () => (await api("GET", `/runs/${run}`)).status === "succeeded");
    const other = await fresh();
    await signIn(other.context());
    await other.goto(`${server.address}/runs`);
    await other.getByText("Live").waitFor();
    await other.locator(`a.run-row[href$="${run}"]`).waitFor();
    await open(`/runs/${run}`);
    await button(page, "Remove").click();
    await button(page.getByRole("dialog"), "Back").click();
    await button(page, "Remove").click();
    await button(page.getByRole("dialog"), "Remove run").click();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    await other.locator(`a.run-row[href$="${run}"]`).waitFor({ state: "detached" });
    equal(await page.locator(`a.run-row[href$="${run}"]`).count(), 0, "removed");
  },

  async "runs: a run is started with a form"({ page, open }) {
    await open("/runs");
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    await page.keyboard.press("n");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("combobox", { name: "Definition" }).selectOption("rows");
    await dialog.getByLabel("customer").fill("anna");
    await dialog.getByLabel("times").fill("4");
    await button(dialog, "Start").click();
    await page.locator(".pill", { hasText: "succeeded" }).waitFor();
    await tab(page, "Input & output").click();
    await page.locator(".json-box", { hasText: '"anna"' }).waitFor();
    equal(await page.locator(".numeral").first().textContent(), "4", "the number is not a string");
  },

  async "a run: the graph shows the plan with statuses, and loops as groups with progress strips"({ page, open, ended }) {
    await open(`/runs/${ended.rows}`);
    await page.locator(".box.group.loop", { hasText: "rows" }).first().waitFor();
    equal(await page.locator(".react-flow__node").count(), 7, "boxes");
    await page.locator(".box.loop", { hasText: "rows" }).first().getByText("3 iterations").waitFor();
    await page.locator(".box.step", { hasText: "keep" }).getByText("× 9").waitFor();
    await page.locator(".strip.mini .strip-cell").first().waitFor();
    await page.locator(".box.step", { hasText: "after" }).click();
    await page.locator(".side", { hasText: "Output" }).getByText("message").waitFor();
    await page.locator(".side").getByText(HOSTILE.slice(0, 18)).first().waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".side").waitFor({ state: "detached" });
  },

  async "a run: the tabs timeline, events, data, definition and journal show its data"({ page, open, ended }) {
    await open(`/runs/${ended.rows}/timeline`);
    await page.locator(".timeline-row", { hasText: "rows" }).locator(".fold-button").click();
    await page.locator(".timeline-row", { hasText: "iteration 2" }).waitFor();
    await tab(page, "Events").click();
    await page.getByLabel("Follow newest").check();
    await page.locator(".event-row", { hasText: "workflow.finished" }).waitFor();
    await page.locator(".filter-select select").selectOption("loop.iteration.done");
    await until("only events of that type", async () => (await page.locator(".event-row").count()) === 12);
    await page.locator(".event-row").first().click();
    await page.locator(".log-open .json").getByText("loopType").waitFor();
    await tab(page, "Definition").click();
    await page.locator(".code-view", { hasText: "greaterOrEquals" }).waitFor();
    await tab(page, "Journal").click();
    await page.locator(".journal-row").first().click();
    await page.locator(".log-open .json").waitFor();
    await page.keyboard.press("6");
    await page.locator(".json-box").first().waitFor();
    await page.getByText(HOSTILE.slice(0, 18)).first().waitFor();
  },

  async "a failed run shows the error in the definition and can be retried"({ page, open, ended }) {
    await open(`/runs/${ended.flaky}`);
    await page.locator(".run-error").getByText("numbers[2].read").first().waitFor();
    await page.locator(".run-error").getByText(/line \d+, column \d+/).click();
    await page.locator(".code-view li.marked").waitFor();
    holds((await page.locator(".annotation").first().textContent()).includes("^"), "a caret");
    await button(page, "Retry failed").click();
    await page.getByRole("dialog").getByText("2 failed iterations").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Retry failed" }).click();
    await until("the new run", async () => !page.url().includes(ended.flaky));
    await page.locator(".run-facts", { hasText: "retry of" }).waitFor();
    await link(page, ended.flaky).click();
    await until("the old run", async () => page.url().includes(ended.flaky));
  },

  async "a run is paused, resumed, and cancelled with a reason after confirmation"({ page, open, start, api }) {
    const run = await start("slow");
    await open(`/runs/${run}`);
    await page.locator(".box.loop", { hasText: "ticking" }).waitFor();
    await button(page, "Pause").click();
    await page.locator(".pill", { hasText: "paused" }).waitFor();
    await button(page, "Resume").click();
    await page.locator(".pill", { hasText: /running|waiting/ }).waitFor();
    await button(page, "Cancel").click();
    await page.getByRole("dialog").getByLabel("Reason").fill("enough");
    await button(page.getByRole("dialog"), "Cancel run").click();
    await page.locator(".pill", { hasText: "cancelled" }).waitFor();
    equal((await api("GET", `/runs/${run}`)).status, "cancelled", "the status on the server");
    equal(await button(page, "Pause").count(), 0, "no pause button");
  },

  async "the progress of a running run is shown live"({ page, open, start, api }) {
    const run = await start("slow");
    await open(`/runs/${run}`);
    const iterations = async () => Number(/(\d+) of/.exec((await page.locator(".box.loop .box-text span").first().textContent()) ?? "")?.[1] ?? 0);
    await page.locator(".box.loop", { hasText: "iterations" }).waitFor();
    const first = await iterations();
    await until("more iterations without a reload", async () => (await iterations()) > first);
    await api("POST", `/runs/${run}/cancel`, {});
    await page.locator(".pill", { hasText: "cancelled" }).waitFor();
  },

  async "a signal is sent"({ page, open, start }) {
    const run = await start("signalled");
    await open(`/runs/${run}`);
    await page.locator(".waits", { hasText: "paid" }).waitFor();
    await button(page, "Signal").click();
    await page.getByRole("dialog").getByLabel("Data").fill('{"sum": 3}');
    await button(page.getByRole("dialog"), "Send").click();
    await page.locator(".pill", { hasText: "succeeded" }).waitFor();
  },

  async "a loop: 100,000 iterations are shown in under 200 ms on an idle machine"({ page, open, ended, limits }) {
    await open(`/runs/${ended.many}/loops`);
    await page.locator(".loop-row", { hasText: "count" }).waitFor();
    // Load the code of the view first, so that only the loop is measured.
    await page.locator(".loop-row").first().click();
    await page.locator("button.iteration-row").first().waitFor();
    await page.goBack();
    await page.locator(".loop-row").first().waitFor();
    // The machine may be busy, so the best of several attempts counts.
    const attempts = [];
    while (attempts.length < 8 && !attempts.some((ms) => ms < limits.loop_ms)) {
      const took = await page.evaluate(
        () =>
          new Promise((resolve) => {
            const start = performance.now();
            const check = () => (document.querySelector("button.iteration-row") && document.querySelector(".strip:not(.mini) .strip-cell") ? resolve(performance.now() - start) : requestAnimationFrame(check));
            document.querySelector(".loop-row").click();
            check();
          }),
      );
      attempts.push(Math.round(took));
      if (took >= limits.loop_ms) {
        await page.goBack();
        await page.locator(".loop-row").first().waitFor();
      }
    }
    console.log(`      100,000 iterations in ${attempts.join(", ")} ms; limit at this load and for this build: ${limits.loop_ms} ms`);
    holds(Math.min(...attempts) < limits.loop_ms, `took ${attempts.join(", ")} ms`);
    await page.locator(".stats", { hasText: "100\u2009000" }).waitFor();
    holds((await page.locator("button.iteration-row").count()) < 80, "only visible rows are in the document");
    await page.getByLabel("Go to iteration").fill("99990");
    await page.keyboard.press("Enter");
    await page.locator("button.iteration-row", { hasText: "99\u2009990" }).waitFor();
  },

  async "a loop: all failed iterations come first, then the others, none twice"({ page, open, ended }) {
    const requests = [];
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.pathname.endsWith("/iterations") && url.searchParams.get("limit") === "100") requests.push(url.search);
    });
    const [bad, good] = [below(320, (n) => n % 3 === 0), below(320, (n) => n % 3 !== 0)];
    await open(`/runs/${ended.uneven}/loop?path=thirds`);
    await chip(page, "Failed first").waitFor();
    equal(await page.locator(".chips [aria-pressed=true]").count(), 1, "one chip is pressed");
    equal(await chip(page, "Failed first").getAttribute("aria-pressed"), "true", "the default");
    await page.locator("button.iteration-row").first().waitFor();
    equal(requests.map((query) => query.includes("failed=true")), [true], "one page of failed iterations, because more follow");
    await expectRows(page, [...bad, OTHERS, ...good], "failed first");
    await chip(page, FAILED).click();
    await until("the filter in the URL", async () => page.url().includes("failed=true"));
    await page.locator(".others-head").waitFor({ state: "detached" });
    await expectRows(page, bad, "failed only");
    await chip(page, "In order").click();
    await until("the order in the URL", async () => page.url().includes("order=iteration"));
    await page.reload();
    await page.locator("button.iteration-row").first().waitFor();
    equal(await chip(page, "In order").getAttribute("aria-pressed"), "true", "the URL keeps the order");
    await expectRows(page, below(320, () => true), "in order");
    await chip(page, "Failed first").click();
    await until("failed iterations first again", async () => (await page.locator("button.iteration-row > :first-child").allTextContents()).slice(0, 3).join() === "0,3,6");
    requests.length = 0;
    await open(`/runs/${ended.flaky}/loop?path=numbers`);
    await page.locator(".others-head").waitFor();
    equal(requests.length, 2, "one page of each section");
    // The keyboard skips the heading.
    const focused = () => page.evaluate(() => document.activeElement?.querySelector(":scope > :first-child")?.textContent);
    for (const [key, number] of [["j", "4"], ["j", "0"], ["j", "1"], ["k", "0"], ["k", "4"]]) {
      await page.keyboard.press(key);
      await until(`${key} moves to ${number}`, async () => (await focused()) === number);
    }
    await page.keyboard.press("f");
    await page.locator(".others-head").waitFor({ state: "detached" });
    await page.keyboard.press("f");
    await page.locator(".others-head").waitFor();
    await page.getByLabel("Go to iteration").fill("1");
    await page.keyboard.press("Enter");
    await page.locator(".others-head").waitFor({ state: "detached" });
    await expectRows(page, [1, 2, 3, 4, 5], "from that iteration on, in order");
    await button(page, "show from the first").click();
    await until("all in order", async () => (await page.locator("button.iteration-row").count()) === 6);
    await expectRows(page, [0, 1, 2, 3, 4, 5], "in order");
  },

  async "a running loop: an iteration that fails late joins the failed ones, and the scroll position stays"({ page, open, start, api }) {
    const run = await start("blocked");
    const has = async (ended) => until(`${ended} iterations`, async () => (await api("GET", `/runs/${run}/loops`)).items[0]?.live?.ended === ended);
    await has(88);
    const bad = below(90, (n) => n % 7 === 0);
    const good = below(90, (n) => n % 7 !== 0 && n !== 5 && n !== 9);
    await open(`/runs/${run}/loop?path=rounds`);
    await page.locator(".others-head").waitFor();
    await expectRows(page, [...bad, OTHERS, ...good], "before");
    const row = page.locator("button.iteration-row", { has: page.locator(":scope > :first-child", { hasText: /^40$/ }) });
    const list = page.locator(".iteration-list .scroll-list");
    await list.evaluate((element) => element.scrollTo({ top: 34 * 40 }));
    await row.click();
    await page.locator(".iteration-details .facts").waitFor();
    await until("all details of the iteration", async () => (await page.locator(".iteration-details .skeleton").count()) === 0);
    const position = async () => Math.round((await row.boundingBox()).y - (await list.boundingBox()).y);
    const before = await position();
    const signal = async (name, failed) => {
      await api("POST", `/runs/${run}/signal`, { name });
      await page.locator(".stats", { hasText: failed }).waitFor();
    };
    await signal("go5", `Failed${bad.length + 1}`);
    const shift = await until("one more above", async () => {
      const index = Number(await row.locator("..").getAttribute("data-index"));
      return index === bad.length + 2 + good.indexOf(40) && index;
    });
    equal(await position(), before, `the expanded iteration does not move, as row ${shift}`);
    await signal("go9", "Iterations90");
    await page.locator(".loop-head .pill", { hasText: "failed" }).waitFor();
    await until("another one above", async () => Number(await row.locator("..").getAttribute("data-index")) === shift + 1);
    equal(await position(), before, "it has not moved");
    equal(await row.getAttribute("aria-expanded"), "true", "still expanded");
    const insert = (list, number) => [...list, number].sort((one, other) => one - other);
    await expectRows(page, [...insert(bad, 5), OTHERS, ...insert(good, 9)], "each iteration once");
  },

  async "a loop: the failed filter, errors, and a restart from an iteration"({ page, open, ended }) {
    await open(`/runs/${ended.flaky}/loop?path=numbers`);
    await page.locator("button.iteration-row").first().waitFor();
    const all = await page.locator("button.iteration-row").count();
    await chip(page, FAILED).click();
    await until("fewer rows", async () => (await page.locator("button.iteration-row").count()) < all);
    await page.locator("button.iteration-row").first().click();
    await page.locator(".iteration-details .problem").waitFor();
    await button(page, "Restart from this iteration").click();
    await page.getByRole("dialog").getByText("numbers[2]").waitFor();
    await button(page.getByRole("dialog"), "Restart").click();
    await until("the new run", async () => !page.url().includes(ended.flaky));
    await page.locator(".run-facts", { hasText: "restart of" }).waitFor();
  },

  async "a loop: failure summary, item, position in the definition, and comparison with a successful iteration"({ page, open, ended }) {
    await open(`/runs/${ended.flaky}/loop?path=numbers`);
    await page.locator(".failure-summary", { hasText: "2 ×" }).getByRole("link").click();
    const details = page.locator(".iteration-details");
    await details.locator(".iteration-facts", { hasText: "Item" }).getByText("x", { exact: true }).waitFor();
    await details.locator("details[open]", { hasText: "read" }).waitFor();
    await button(details, "Compare with a successful iteration").click();
    await details.locator(".compared tr", { hasText: "item" }).getByText('"x"').waitFor();
    await details.locator(".compared tr.distinctive", { hasText: "read.status" }).getByText("distinctive").waitFor();
    await details.getByRole("link", { name: /line \d+/ }).click();
    await page.locator(".code-view li.marked", { hasText: '"read"' }).waitFor();
    await page.getByText("The marked error occurred in").waitFor();
  },

  async "a running loop: iterations appear live and in order, even those that end late"({ page, open, start }) {
    const run = await start("parallel");
    await open(`/runs/${run}/loop?path=visit`);
    await page.locator(".loop-head .pill", { hasText: "succeeded" }).waitFor({ timeout: 30_000 });
    await until("all iterations", async () => (await page.locator("button.iteration-row").count()) === 6);
    equal((await page.locator("button.iteration-row > :first-child").allTextContents()).join(""), "012345", "their order");
    equal(await page.getByText("Not retained").count(), 0, "no gaps");
  },

  async "a loop of agents: verdicts, steps and cost of each iteration, and a restart from one"({ page, open, ended }) {
    await open(`/runs/${ended.drafts}/loop?path=cycle`);
    await page.locator(".stats", { hasText: "Tokens" }).getByText("3\u2009250").waitFor();
    await page.locator("button.iteration-row", { hasText: "It has no end." }).getByText(/^0\.00\d/).waitFor();
    await page.locator("button.iteration-row", { hasText: "It has no end." }).click();
    const details = page.locator(".iteration-details");
    await details.locator("summary", { hasText: "write" }).click();
    await details.locator(".json-box", { hasText: "A draft." }).first().waitFor();
    await button(page, "Restart from this iteration").click();
    await button(page.getByRole("dialog"), "Restart").click();
    await until("the new run", async () => !page.url().includes(ended.drafts));
    await page.locator(".run-facts", { hasText: "restart of" }).waitFor();
  },

  async "a run without a matching worker shows what it waits for; a worker is drained"({ page, open, start, api }) {
    const run = await start("pressed");
    await open(`/runs/${run}`);
    await page.locator(".waits", { hasText: "waits for a worker" }).getByText("python").waitFor();
    await page.locator(".activity").getByRole("link", { name: "press" }).waitFor();
    // Steps that have not started are drawn as well.
    await page.locator(".box.step:not(.started)", { hasText: "pack" }).waitFor();
    await api("POST", "/worker/lease", { worker: "w-1", name: "press room", tools: ["shell"], slots: 2, wait_ms: 0 });
    await link(page, "view workers").click();
    const worker = page.locator("section.panel", { hasText: "press room" });
    await button(worker, "Drain").click();
    await button(page.getByRole("dialog"), "Drain").click();
    await worker.getByText("draining").waitFor();
    await api("POST", `/runs/${run}/cancel`, {});
  },

  async "a step of one iteration among very many shows its output and only its events"({ page, open, ended }) {
    const step = (iteration) => `/runs/${ended.many}/timeline?step=${encodeURIComponent(`count[${iteration}].add`)}`;
    const side = page.locator(".side");
    // No longer buffered; the server finds it in the journal.
    await open(step(1000));
    await side.locator(".status", { hasText: "succeeded" }).waitFor({ timeout: 30_000 });
    await side.locator(".json-box", { hasText: "1001" }).waitFor({ timeout: 30_000 });
    await link(side, "Events").click();
    await page.locator(".chip", { hasText: "count[1000].add" }).waitFor();
    await page.locator(".event-row", { hasText: "step.done" }).waitFor({ timeout: 60_000 });
    equal(await page.locator(".event-row", { hasText: "step." }).count(), 2, "only events of this step");
    await page.locator(".chip", { hasText: "count[1000].add" }).click();
    await page.locator(".event-row", { hasText: "count[" }).nth(5).waitFor();
    // A long loop publishes no events for single iterations; the iteration record remains.
    await open(step(96_000));
    await side.getByText("No events of this step are retained").waitFor({ timeout: 30_000 });
    await side.locator(".json-box", { hasText: "96001" }).waitFor();
  },

  async "a definition is removed after confirmation; its runs keep their version"({ page, open, start, api }) {
    await api("POST", "/definitions", { source: DEFINITIONS.signalled.replace('"signalled"', '"leaving"') });
    const run = await start("leaving");
    await open("/definitions/leaving");
    await button(page, "Remove").click();
    await button(page.getByRole("dialog"), "Remove definition").click();
    await page.getByRole("heading", { name: "Definitions" }).waitFor();
    await link(page, "rows").waitFor();
    equal(await link(page, "leaving").count(), 0, "removed");
    await api("POST", `/runs/${run}/signal`, { name: "paid" });
    await open(`/runs/${run}/definition`);
    await page.locator(".pill", { hasText: "succeeded" }).waitFor();
    await page.locator(".code-view", { hasText: "paid" }).waitFor();
    await open("/definitions/leaving?version=1");
    await page.getByText("It can no longer be started").waitFor();
  },

  async "tokens: a token is created, shown once, limited to its scopes, and revoked"({ page, open, fresh, signIn, server }) {
    await open("/tokens");
    await button(page, "Create token").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("night shift");
    await button(dialog, "Create").click();
    await dialog.getByText("shown only once").waitFor();
    const token = await dialog.locator("code").textContent();
    holds(/^wl_/.test(token), "a token");
    await button(dialog, "Done").click();
    const row = page.locator("tr", { hasText: "night shift" });
    await row.getByText("read").waitFor();
    equal(await page.getByText(token).count(), 0, "not shown again");
    const reader = await fresh();
    await signIn(reader.context(), token);
    await reader.goto(`${server.address}/tokens`);
    await reader.locator(".problem", { hasText: "scope" }).waitFor();
    await row.getByRole("button", { name: "Revoke" }).click();
    await button(page.getByRole("dialog"), "Revoke").click();
    await row.waitFor({ state: "detached" });
    await reader.reload();
    await reader.getByLabel("Token").waitFor();
  },

  async "the audit log: actions with actor and outcome, newest first"({ page, open, start, api }) {
    const run = await start("signalled");
    await api("DELETE", `/runs/${run}`).catch(() => {});
    await api("POST", `/runs/${run}/cancel`, {});
    await open("/audit");
    const rows = page.locator("tbody tr");
    await rows.filter({ hasText: `POST /runs/${run}/cancel` }).getByText("succeeded").waitFor();
    await rows.filter({ hasText: `DELETE /runs/${run}` }).getByText("rejected 409").waitFor();
    await rows.filter({ hasText: `DELETE /runs/${run}` }).getByRole("button").click();
    await page.locator(".json-box", { hasText: "hash" }).waitFor();
    await page.getByPlaceholder("Actor or action").fill("cancel");
    await rows.filter({ hasText: "DELETE" }).first().waitFor({ state: "detached" });
  },

  async "triggers: a schedule is added, disabled, enabled, changed and removed"({ page, open }) {
    await open("/triggers");
    await button(page, "Add schedule").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Definition").selectOption("rows");
    await dialog.getByLabel("Trigger name").fill("nightly");
    await dialog.getByLabel("Cron expression").fill("0 25 * * *");
    await dialog.getByLabel("Time zone").fill("Europe/Berlin");
    await button(dialog, "Add").click();
    await dialog.locator(".problem").waitFor();
    await dialog.getByLabel("Cron expression").fill("0 3 * * *");
    await button(dialog, "Add").click();
    const row = page.locator("tr", { hasText: "nightly" });
    await row.getByText("0 3 * * * Europe/Berlin").waitFor();
    await row.getByText(/^in \d+[hm]/).waitFor();
    await row.getByRole("button", { name: "Disable" }).click();
    await row.getByText("disabled", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Enable" }).click();
    await row.getByText("enabled", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Settings" }).click();
    await dialog.getByLabel("Cron expression").fill("30 4 * * *");
    await button(dialog, "Save").click();
    await row.getByText("30 4 * * *").waitFor();
    await row.getByRole("button", { name: "Remove" }).click();
    await button(dialog, "Remove").click();
    await row.waitFor({ state: "detached" });
  },

  async "triggers: a webhook takes a secret reference and rejects a secret"({ page, open, api }) {
    await api("POST", "/definitions", { source: DEFINITIONS.called });
    await open("/triggers");
    const row = page.locator("tr", { hasText: "called" });
    await row.getByText("auth: token").waitFor();
    await row.getByRole("button", { name: "Settings" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Authentication").selectOption("signature");
    await dialog.getByLabel("Secret reference").fill("whsec_c2VjcmV0");
    await button(dialog, "Save").click();
    await dialog.locator(".problem", { hasText: "not a reference" }).waitFor();
    await dialog.getByLabel("Secret reference").fill("env:WINDLASS_TEST_HOOK");
    await dialog.getByLabel("Signature scheme").selectOption("github");
    await button(dialog, "Save").click();
    await row.getByText("auth: signature (github)").waitFor();
  },

  async "definitions: list, source, graph, parameters, versions"({ page, open }) {
    await open("/definitions");
    await link(page, "rows").click();
    await page.locator(".code-view", { hasText: "columns" }).waitFor();
    await tab(page, "Graph").click();
    await page.locator(".box.loop", { hasText: "rows" }).first().waitFor();
    await tab(page, "Parameters").click();
    await page.locator("td", { hasText: "times" }).waitFor();
    await tab(page, "Versions").click();
    await page.locator("td", { hasText: "v1" }).waitFor();
  },

  async "a definition is checked while typing, corrected and registered"({ page, open }) {
    await open("/check");
    const text = DEFINITIONS.rows.replace('"rows"', '"typed"').replace("greaterOrEquals", "greaterOrEqual");
    await page.getByLabel("Definition", { exact: true }).fill(text);
    await page.getByText("1 problem").waitFor();
    await page.locator(".annotation", { hasText: "did you mean" }).waitFor();
    equal(await button(page, "Register").isDisabled(), true, "an invalid definition cannot be registered");
    await page.getByLabel("Definition", { exact: true }).fill(text.replace("greaterOrEqual", "greaterOrEquals"));
    await page.getByText("The definition is valid").waitFor();
    await tab(page, "Graph").click();
    await page.locator(".box.loop").first().waitFor();
    await button(page, "Register").click();
    await page.locator("h1", { hasText: "typed" }).waitFor();
  },

  async "a sample of each dialect is valid; a problem links to its line"({ page, open }) {
    for (const dialect of ["Loom", "NoETL", "zenflow"]) {
      await open("/check");
      await page.getByLabel("Definition", { exact: true }).fill("");
      await page.locator(".samples").getByRole("button", { name: dialect }).click();
      await page.getByText(`The definition is valid, ${dialect.toLowerCase()}`).waitFor();
    }
    await page.getByLabel("Definition", { exact: true }).fill(DEFINITIONS.rows.replace("greaterOrEquals", "greaterOrEqual"));
    await page.locator(".annotation", { hasText: "did you mean" }).waitFor();
    await page.locator(".problem-list").getByRole("button").first().click();
    const line = await page.getByLabel("Definition", { exact: true }).evaluate((area) => area.value.slice(0, area.selectionStart).split("\n").length);
    holds(DEFINITIONS.rows.split("\n")[line - 1].includes("greaterOrEquals"), `line ${line}`);
    await page.getByLabel("Definition", { exact: true }).fill("");
  },

  async "an approval: the form, problems by field, and the answer"({ page, open, start }) {
    const run = await start("payment");
    await open(`/approvals?run=${run}`);
    await page.getByRole("heading", { name: "Pay the invoice?" }).waitFor();
    holds((await page.locator(".message").textContent()).includes(HOSTILE), "the message is rendered as text");
    await button(page, "Submit answer").click();
    await page.locator(".field.wrong", { hasText: "Decision" }).getByText("is required").waitFor();
    await page.getByLabel("Decision").selectOption("pay");
    await page.getByLabel("Cost centre").fill("4200");
    await button(page, "Add").click();
    await page.locator(".list-item input").fill("urgent");
    await button(page, "Submit answer").click();
    await page.getByText("Answered: Pay the invoice?").waitFor();
    await open(`/runs/${run}/data`);
    await page.locator(".pill", { hasText: "succeeded" }).waitFor();
    await page.locator(".fold-row", { hasText: "ask" }).click();
    await page.locator(".fold-in .json-box", { hasText: "urgent" }).waitFor();
  },

  async "the views workers, triggers and about open"({ page, open }) {
    for (const [path, title] of [["/workers", "Workers"], ["/triggers", "Triggers"], ["/about", "About this server"]]) {
      await open(path);
      await page.getByRole("heading", { name: title }).waitFor();
    }
    await page.locator(".facts").getByText(/^\d+\.\d+\.\d+$/).waitFor();
  },

  async "keyboard shortcuts: rows, views, help"({ page, open }) {
    await open("/runs");
    await page.locator("a.run-row").nth(1).waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.locator('a.run-row.chosen[data-row="1"]').waitFor();
    await page.keyboard.press("k");
    await page.locator('a.run-row.chosen[data-row="0"]').waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("d");
    await page.getByRole("heading", { name: "Definitions" }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  },

  async "the theme can be changed and is stored"({ page, open }) {
    await open("/runs");
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.locator(".nav").getByRole("button", { name: "Dark" }).click();
    const dark = await background();
    await page.locator(".nav").getByRole("button", { name: "Light" }).click();
    holds((await background()) !== dark, "the themes differ");
    await page.reload();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    holds((await background()) !== dark, "the theme is stored");
  },

  async "every view is accessible and has enough contrast, in light and dark"({ page, open, ended }) {
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      for (const view of [...views(ended), `/runs/${ended.flaky}/loop?path=numbers&iteration=2`]) {
        await open(view);
        await page.locator("h1").first().waitFor();
        await until(`${view} is loaded`, async () => (await page.locator(".skeleton").count()) === 0);
        for (const check of [accessibilityProblems, contrastProblems]) {
          const found = await page.evaluate(check);
          holds(found.length === 0, `${view} in ${theme}: ${found.join("; ")}`);
        }
      }
    }
  },

  async "the keyboard can skip the navigation, and the focus follows into a view"({ page, open }) {
    await open("/runs");
    await page.locator("a.run-row").first().waitFor();
    await page.keyboard.press("Tab");
    equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to content", "the first tab stop");
    await page.keyboard.press("Enter");
    equal(await page.evaluate(() => document.activeElement?.id), "main", "navigation skipped");
    await button(page, "Start a run").focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Start a run" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.locator(".run-head").waitFor();
    equal(await page.evaluate(() => document.activeElement?.id), "main", "focus in the opened view");
    await page.getByRole("tab").first().focus();
    await page.keyboard.press("End");
    await until("the last tab", async () => page.url().endsWith("/journal"));
  },

  async "every view fits into 360 pixels"({ page, open, ended }) {
    await page.setViewportSize({ width: 360, height: 740 });
    for (const view of [...views(ended), `/runs/${ended.flaky}/loop?path=numbers&iteration=2`]) {
      await open(view);
      await page.locator(".page").first().waitFor();
      const width = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.querySelector(".main")?.scrollWidth ?? 0));
      holds(width <= 360, `${view} is ${width} wide`);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
  },

  async "a broken stream reconnects and misses nothing"({ page, open, start }) {
    await open("/runs");
    await page.getByText("Live").waitFor();
    await page.context().setOffline(true);
    const run = await start("signalled");
    await page.getByText("The server is not reachable").waitFor({ timeout: 20_000 });
    await page.context().setOffline(false);
    await page.locator(`a.run-row[href$="${run}"]`).waitFor({ timeout: 20_000 });
    await page.getByText("The server is not reachable").waitFor({ state: "detached" });
  },
};
