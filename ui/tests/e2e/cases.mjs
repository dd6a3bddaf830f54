// What a person does with the page. Adding a case is adding an entry.

import { equal, holds, until } from "./harness.mjs";
import { hardToReach, hardToRead } from "./looks.mjs";
import { DEFINITIONS, HOSTILE } from "./seeds.mjs";

const row = (page, text) => page.locator("a.run-row", { hasText: text }).first();
const tab = (page, name) => page.getByRole("tab", { name, exact: true });
const button = (page, name) => page.getByRole("button", { name, exact: true });
const link = (page, name) => page.getByRole("link", { name, exact: true });

/** The list of turns from its top to its end, as the reader comes by: numbers of turns, and the heading as it is. */
async function rowsAre(page, wanted, what) {
  const list = page.locator(".turn-list .scroll-list");
  await list.evaluate((element) => element.scrollTo({ top: 0 }));
  const seen = new Map();
  await until(`the end of ${wanted.length} rows, ${what}`, async () => {
    const { rows, end } = await list.evaluate((element) => {
      const rows = [...element.querySelectorAll("[data-index]")].map((row) => [Number(row.dataset.index), row.querySelector(".turn-row > :first-child, h2").textContent]);
      const end = element.scrollTop + element.clientHeight >= element.scrollHeight - 1;
      element.scrollBy({ top: element.clientHeight * 0.8, behavior: "instant" });
      return { rows, end };
    });
    for (const [at, text] of rows) seen.set(at, /^\d+$/.test(text) ? Number(text) : text);
    return end && seen.size >= wanted.length;
  }, 30_000);
  equal([...seen.keys()].sort((one, other) => one - other).map((at) => seen.get(at)), wanted, what);
}
const OTHERS = "The others, in their order";
const upTo = (end, holds) => Array.from({ length: end }, (_, at) => at).filter(holds);
const chip = (page, name) => page.locator(".chips").getByRole("button", { name });
const FAILED = /(^|\s)Failed( \d+)?$/;

const views = (ended) => ["/runs", `/runs/${ended.rows}`, `/runs/${ended.rows}/timeline`, `/runs/${ended.rows}/loops`, `/runs/${ended.rows}/events`, `/runs/${ended.flaky}/data`, `/runs/${ended.flaky}/definition`, `/runs/${ended.rows}/journal`, `/runs/${ended.many}/loop?path=count`, `/runs/${ended.flaky}/loop?path=numbers`, "/definitions", "/definitions/rows", "/check", "/approvals", "/triggers", "/workers", "/tokens", "/audit", "/about"];

export const CASES = {
  async "signing in: the form, a wrong token, the right one"({ fresh, server }) {
    const page = await fresh();
    await page.goto(server.address);
    await page.getByLabel("Token").fill("wl_wrong");
    await button(page, "Sign in").click();
    await page.getByText("does not know this token").waitFor();
    await page.getByLabel("Token").fill(server.token);
    await button(page, "Sign in").click();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
  },

  async "a token in the address is taken out of it, and kept for the tab"({ fresh, server }) {
    const page = await fresh();
    await page.goto(server.page);
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    equal(new URL(page.url()).hash, "", "the fragment");
    await page.reload();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    const kept = await page.evaluate(() => [sessionStorage.length, localStorage.getItem("windlass.token")]);
    equal(kept, [1, null], "where it is kept");
  },

  async "runs: a new one is seen at once, filters and search hold"({ page, open, start, api }) {
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
    await until("only that run", async () => (await page.locator("a.run-row").count()) === 1);
    await until("the search in the address", async () => page.url().includes(`search=${run}`));
    await api("POST", `/runs/${run}/cancel`, {});
    await page.locator(`a.run-row[href$="${run}"]`, { hasText: "cancelled" }).waitFor();
  },

  async "runs: chips count, a wait is listed at once, and follow what happens"({ page, open, start, api }) {
    await open("/runs?definition=signalled");
    await page.getByText("Live").waitFor();
    const waiting = page.locator(".chips").getByRole("button", { name: "waiting" });
    const number = async () => Number((await waiting.locator(".number").allTextContents())[0] ?? 0);
    const before = await number();
    const began = Date.now();
    const run = await start("signalled");
    await page.locator(`a.run-row[href$="${run}"]`, { hasText: "waiting" }).waitFor({ timeout: 5000 });
    holds(Date.now() - began < 5000, "not only when it leaves memory");
    await until("one more", async () => (await number()) === before + 1, 5000);
    await api("POST", `/runs/${run}/signal`, { name: "paid" });
    await page.locator(`a.run-row[href$="${run}"]`, { hasText: "succeeded" }).waitFor();
    await until("one less", async () => (await number()) === before, 5000);
  },

  async "runs: one that has ended is removed after a question, and leaves every list"({ page, open, fresh, start, server, api }) {
    const run = await start("signalled");
    await api("POST", `/runs/${run}/signal`, { name: "paid" });
    await until("its end", async () => (await api("GET", `/runs/${run}`)).status === "succeeded");
    const other = await fresh();
    await other.goto(`${server.address}/runs#token=${server.token}`);
    await other.getByText("Live").waitFor();
    await other.locator(`a.run-row[href$="${run}"]`).waitFor();
    await open(`/runs/${run}`);
    await button(page, "Remove").click();
    await button(page.getByRole("dialog"), "Back").click();
    await button(page, "Remove").click();
    await button(page.getByRole("dialog"), "Remove the run").click();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    await other.locator(`a.run-row[href$="${run}"]`).waitFor({ state: "detached" });
    equal(await page.locator(`a.run-row[href$="${run}"]`).count(), 0, "it is gone");
  },

  async "runs: one is started with a form, and runs"({ page, open }) {
    await open("/runs");
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    await page.keyboard.press("n");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("combobox", { name: "Definition" }).selectOption("rows");
    await dialog.getByLabel("who").fill("anna");
    await dialog.getByLabel("times").fill("4");
    await button(dialog, "Start").click();
    await page.locator(".pill", { hasText: "succeeded" }).waitFor();
    await tab(page, "Input & output").click();
    await page.locator(".json-box", { hasText: '"anna"' }).waitFor();
    equal(await page.locator(".numeral").first().textContent(), "4", "a number stays a number");
  },

  async "a run: the graph has the plan's boxes with how they stand, loops as groups with strips"({ page, open, ended }) {
    await open(`/runs/${ended.rows}`);
    await page.locator(".box.group.loop", { hasText: "rows" }).first().waitFor();
    equal(await page.locator(".react-flow__node").count(), 7, "boxes");
    await page.locator(".box.loop", { hasText: "rows" }).first().getByText("3 turns").waitFor();
    await page.locator(".box.step", { hasText: "keep" }).getByText("× 9").waitFor();
    await page.locator(".strip.mini .strip-cell").first().waitFor();
    await page.locator(".box.step", { hasText: "after" }).click();
    await page.locator(".side", { hasText: "Output" }).getByText("said").waitFor();
    await page.locator(".side").getByText(HOSTILE.slice(0, 18)).first().waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".side").waitFor({ state: "detached" });
  },

  async "a run: timeline, events, data, definition and journal are all there"({ page, open, ended }) {
    await open(`/runs/${ended.rows}/timeline`);
    await page.locator(".timeline-row", { hasText: "rows" }).locator(".fold-button").click();
    await page.locator(".timeline-row", { hasText: "turn 2" }).waitFor();
    await tab(page, "Events").click();
    await page.getByLabel("Newest").check();
    await page.locator(".event-row", { hasText: "workflow.finished" }).waitFor();
    await page.locator(".filter-select select").selectOption("loop.iteration.done");
    await until("only those", async () => (await page.locator(".event-row").count()) === 12);
    await page.locator(".event-row").first().click();
    await page.locator(".log-open .json").getByText("loopType").waitFor();
    await tab(page, "Definition").click();
    await page.locator(".code-view", { hasText: "greaterOrEquals" }).waitFor();
    await tab(page, "Journal").click();
    await page.locator(".journal-row").first().click();
    await page.locator(".log-open .json").waitFor();
    await page.keyboard.press("5");
    await page.locator(".json-box").first().waitFor();
    await page.getByText(HOSTILE.slice(0, 18)).first().waitFor();
  },

  async "a run that failed shows where in the definition, and retries"({ page, open, ended }) {
    await open(`/runs/${ended.flaky}`);
    await page.locator(".run-error").getByText("numbers[2].read").first().waitFor();
    await page.locator(".run-error").getByText(/line \d+, column \d+/).click();
    await page.locator(".code-view li.marked").waitFor();
    holds((await page.locator(".said").first().textContent()).includes("^"), "a caret");
    await button(page, "Retry failed").click();
    await page.getByRole("dialog").getByText("2 turns that failed").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Retry failed" }).click();
    await until("the new run", async () => !page.url().includes(ended.flaky));
    await page.locator(".run-facts", { hasText: "retries" }).waitFor();
    await link(page, ended.flaky).click();
    await until("the old run", async () => page.url().includes(ended.flaky));
  },

  async "a run: paused, resumed, and cancelled with a reason after a question"({ page, open, start, api }) {
    const run = await start("slow");
    await open(`/runs/${run}`);
    await page.locator(".box.loop", { hasText: "ticking" }).waitFor();
    await button(page, "Pause").click();
    await page.locator(".pill", { hasText: "paused" }).waitFor();
    await button(page, "Resume").click();
    await page.locator(".pill", { hasText: /running|waiting/ }).waitFor();
    await button(page, "Cancel").click();
    await page.getByRole("dialog").getByLabel("Reason").fill("enough");
    await button(page.getByRole("dialog"), "Cancel the run").click();
    await page.locator(".pill", { hasText: "cancelled" }).waitFor();
    equal((await api("GET", `/runs/${run}`)).status, "cancelled", "the server says so too");
    equal(await button(page, "Pause").count(), 0, "nothing to pause");
  },

  async "a run that goes on is shown going on"({ page, open, start, api }) {
    const run = await start("slow");
    await open(`/runs/${run}`);
    const turns = async () => Number(/(\d+) of/.exec((await page.locator(".box.loop .box-text span").first().textContent()) ?? "")?.[1] ?? 0);
    await page.locator(".box.loop", { hasText: "turns" }).waitFor();
    const first = await turns();
    await until("more turns, without a reload", async () => (await turns()) > first);
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

  async "a loop: 100,000 turns, in under 200 ms where the machine is idle"({ page, open, ended, limits }) {
    await open(`/runs/${ended.many}/loops`);
    await page.locator(".loop-row", { hasText: "count" }).waitFor();
    // The code of the view is loaded once and kept: what is measured is the loop.
    await page.locator(".loop-row").first().click();
    await page.locator("button.turn-row").first().waitFor();
    await page.goBack();
    await page.locator(".loop-row").first().waitFor();
    // The machine may be busy with other things: the best of some tries is what the page needs.
    const tries = [];
    while (tries.length < 8 && !tries.some((ms) => ms < limits.loop_ms)) {
      const took = await page.evaluate(
        () =>
          new Promise((resolve) => {
            const began = performance.now();
            const look = () => (document.querySelector("button.turn-row") && document.querySelector(".strip:not(.mini) .strip-cell") ? resolve(performance.now() - began) : requestAnimationFrame(look));
            document.querySelector(".loop-row").click();
            look();
          }),
      );
      tries.push(Math.round(took));
      if (took >= limits.loop_ms) {
        await page.goBack();
        await page.locator(".loop-row").first().waitFor();
      }
    }
    console.log(`      100,000 turns in ${tries.join(", ")} ms; allowed at this load and for this build: ${limits.loop_ms} ms`);
    holds(Math.min(...tries) < limits.loop_ms, `it took ${tries.join(", ")} ms`);
    await page.locator(".figures", { hasText: "100\u2009000" }).waitFor();
    holds((await page.locator("button.turn-row").count()) < 80, "only what is seen is in the document");
    await page.getByLabel("Go to turn").fill("99990");
    await page.keyboard.press("Enter");
    await page.locator("button.turn-row", { hasText: "99\u2009990" }).waitFor();
  },

  async "a loop: failed turns come first, all of them, then the others, and none twice"({ page, open, ended }) {
    const asked = [];
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.pathname.endsWith("/turns") && url.searchParams.get("limit") === "100") asked.push(url.search);
    });
    const [bad, good] = [upTo(320, (turn) => turn % 3 === 0), upTo(320, (turn) => turn % 3 !== 0)];
    await open(`/runs/${ended.uneven}/loop?path=thirds`);
    await chip(page, "Failed first").waitFor();
    equal(await page.locator(".chips [aria-pressed=true]").count(), 1, "one is pressed");
    equal(await chip(page, "Failed first").getAttribute("aria-pressed"), "true", "what is usual");
    await page.locator("button.turn-row").first().waitFor();
    equal(asked.map((query) => query.includes("failed=true")), [true], "one page is asked for: there are more failed ones");
    await rowsAre(page, [...bad, OTHERS, ...good], "failed first");
    await chip(page, FAILED).click();
    await until("the address", async () => page.url().includes("failed=true"));
    await page.locator(".others-head").waitFor({ state: "detached" });
    await rowsAre(page, bad, "failed alone");
    await chip(page, "In order").click();
    await until("the address has it", async () => page.url().includes("order=turns"));
    await page.reload();
    await page.locator("button.turn-row").first().waitFor();
    equal(await chip(page, "In order").getAttribute("aria-pressed"), "true", "a link keeps it");
    await rowsAre(page, upTo(320, () => true), "in order");
    await chip(page, "Failed first").click();
    await until("failed ones again", async () => (await page.locator("button.turn-row > :first-child").allTextContents()).slice(0, 3).join() === "0,3,6");
    asked.length = 0;
    await open(`/runs/${ended.flaky}/loop?path=numbers`);
    await page.locator(".others-head").waitFor();
    equal(asked.length, 2, "one page of each");
    // The heading is no row to stand on.
    const standing = () => page.evaluate(() => document.activeElement?.querySelector(":scope > :first-child")?.textContent);
    for (const [key, turn] of [["j", "4"], ["j", "0"], ["j", "1"], ["k", "0"], ["k", "4"]]) {
      await page.keyboard.press(key);
      await until(`${key} comes to ${turn}`, async () => (await standing()) === turn);
    }
    await page.keyboard.press("f");
    await page.locator(".others-head").waitFor({ state: "detached" });
    await page.keyboard.press("f");
    await page.locator(".others-head").waitFor();
    await page.getByLabel("Go to turn").fill("1");
    await page.keyboard.press("Enter");
    await page.locator(".others-head").waitFor({ state: "detached" });
    await rowsAre(page, [1, 2, 3, 4, 5], "from that turn on, in order");
    await button(page, "from the first").click();
    await until("all in order", async () => (await page.locator("button.turn-row").count()) === 6);
    await rowsAre(page, [0, 1, 2, 3, 4, 5], "in order");
  },

  async "a loop that goes on: a turn that fails late comes to the failed ones, and what is read stays where it is"({ page, open, start, api }) {
    const run = await start("held");
    const has = async (ended) => until(`${ended} turns`, async () => (await api("GET", `/runs/${run}/loops`)).items[0]?.live?.ended === ended);
    await has(88);
    const bad = upTo(90, (turn) => turn % 7 === 0);
    const good = upTo(90, (turn) => turn % 7 !== 0 && turn !== 5 && turn !== 9);
    await open(`/runs/${run}/loop?path=turns`);
    await page.locator(".others-head").waitFor();
    await rowsAre(page, [...bad, OTHERS, ...good], "before");
    const row = page.locator("button.turn-row", { has: page.locator(":scope > :first-child", { hasText: /^40$/ }) });
    const list = page.locator(".turn-list .scroll-list");
    await list.evaluate((element) => element.scrollTo({ top: 34 * 40 }));
    await row.click();
    await page.locator(".turn-more .facts").waitFor();
    await until("all of the turn", async () => (await page.locator(".turn-more .skeleton").count()) === 0);
    const place = async () => Math.round((await row.boundingBox()).y - (await list.boundingBox()).y);
    const before = await place();
    const signalled = async (name, failed) => {
      await api("POST", `/runs/${run}/signal`, { name });
      await page.locator(".figures", { hasText: failed }).waitFor();
    };
    await signalled("go5", `Failed${bad.length + 1}`);
    const shift = await until("one more above", async () => {
      const index = Number(await row.locator("..").getAttribute("data-index"));
      return index === bad.length + 2 + good.indexOf(40) && index;
    });
    equal(await place(), before, `the open turn stays where it is, as row ${shift}`);
    await signalled("go9", "Turns90");
    await page.locator(".loop-head .pill", { hasText: "failed" }).waitFor();
    await until("another one above", async () => Number(await row.locator("..").getAttribute("data-index")) === shift + 1);
    equal(await place(), before, "it still is there");
    equal(await row.getAttribute("aria-expanded"), "true", "and open");
    const at = (list, turn) => [...list, turn].sort((one, other) => one - other);
    await rowsAre(page, [...at(bad, 5), OTHERS, ...at(good, 9)], "each turn once");
  },

  async "a loop: failed turns alone, their errors, and a restart from one"({ page, open, ended }) {
    await open(`/runs/${ended.flaky}/loop?path=numbers`);
    await page.locator("button.turn-row").first().waitFor();
    const all = await page.locator("button.turn-row").count();
    await chip(page, FAILED).click();
    await until("fewer", async () => (await page.locator("button.turn-row").count()) < all);
    await page.locator("button.turn-row").first().click();
    await page.locator(".turn-more .problem").waitFor();
    await button(page, "Restart from this turn").click();
    await page.getByRole("dialog").getByText("numbers[2]").waitFor();
    await button(page.getByRole("dialog"), "Restart").click();
    await until("the new run", async () => !page.url().includes(ended.flaky));
    await page.locator(".run-facts", { hasText: "restarts" }).waitFor();
  },

  async "a loop: why turns failed, what the turn was for, where that stands, and how it differs"({ page, open, ended }) {
    await open(`/runs/${ended.flaky}/loop?path=numbers`);
    await page.locator(".why", { hasText: "2 ×" }).getByRole("link").click();
    const turn = page.locator(".turn-more");
    await turn.locator(".turn-facts", { hasText: "Item" }).getByText("x", { exact: true }).waitFor();
    await turn.locator("details[open]", { hasText: "read" }).waitFor();
    await button(turn, "Compare with one that went well").click();
    await turn.locator(".compared tr", { hasText: "item" }).getByText('"x"').waitFor();
    await turn.locator(".compared tr.telling", { hasText: "read.status" }).getByText("stands out").waitFor();
    await turn.getByRole("link", { name: /line \d+/ }).click();
    await page.locator(".code-view li.marked", { hasText: '"read"' }).waitFor();
    await page.getByText("Marked is what went wrong in").waitFor();
  },

  async "a loop that goes on: its turns come by themselves, in order, also those that end late"({ page, open, start }) {
    const run = await start("beside");
    await open(`/runs/${run}/loop?path=visit`);
    await page.locator(".loop-head .pill", { hasText: "succeeded" }).waitFor({ timeout: 30_000 });
    await until("all turns", async () => (await page.locator("button.turn-row").count()) === 6);
    equal((await page.locator("button.turn-row > :first-child").allTextContents()).join(""), "012345", "their order");
    equal(await page.getByText("Not kept any more").count(), 0, "nothing is said to be gone");
  },

  async "a loop of agents: verdicts, steps and cost of each turn, and a restart from one"({ page, open, ended }) {
    await open(`/runs/${ended.drafts}/loop?path=cycle`);
    await page.locator(".figures", { hasText: "Tokens" }).getByText("3\u2009250").waitFor();
    await page.locator("button.turn-row", { hasText: "It has no end." }).getByText(/^0\.00\d/).waitFor();
    await page.locator("button.turn-row", { hasText: "It has no end." }).click();
    const turn = page.locator(".turn-more");
    await turn.locator("summary", { hasText: "write" }).click();
    await turn.locator(".json-box", { hasText: "A draft." }).first().waitFor();
    await button(page, "Restart from this turn").click();
    await button(page.getByRole("dialog"), "Restart").click();
    await until("the new run", async () => !page.url().includes(ended.drafts));
    await page.locator(".run-facts", { hasText: "restarts" }).waitFor();
  },

  async "a run that no worker takes says so, and what it does; a worker is drained"({ page, open, start, api }) {
    const run = await start("pressed");
    await open(`/runs/${run}`);
    await page.locator(".waits", { hasText: "waits for a worker" }).getByText("python").waitFor();
    await page.locator(".doing").getByRole("link", { name: "press" }).waitFor();
    // What it has not come to is drawn as well.
    await page.locator(".box.step:not(.began)", { hasText: "pack" }).waitFor();
    await api("POST", "/worker/lease", { worker: "w-1", name: "press room", tools: ["shell"], slots: 2, wait_ms: 0 });
    await link(page, "the workers there are").click();
    const worker = page.locator("section.panel", { hasText: "press room" });
    await button(worker, "Drain").click();
    await button(page.getByRole("dialog"), "Drain it").click();
    await worker.getByText("draining").waitFor();
    await api("POST", `/runs/${run}/cancel`, {});
  },

  async "a step of one turn among very many shows what came out, and its events alone"({ page, open, ended }) {
    const step = (turn) => `/runs/${ended.many}/timeline?step=${encodeURIComponent(`count[${turn}].add`)}`;
    const side = page.locator(".side");
    // Not at hand any more, but in the journal: it is looked for.
    await open(step(1000));
    await side.locator(".status", { hasText: "succeeded" }).waitFor({ timeout: 30_000 });
    await side.locator(".json-box", { hasText: "1001" }).waitFor({ timeout: 30_000 });
    await link(side, "Events").click();
    await page.locator(".chip", { hasText: "count[1000].add" }).waitFor();
    await page.locator(".event-row", { hasText: "step.done" }).waitFor({ timeout: 60_000 });
    equal(await page.locator(".event-row", { hasText: "step." }).count(), 2, "of this step alone");
    await page.locator(".chip", { hasText: "count[1000].add" }).click();
    await page.locator(".event-row", { hasText: "count[" }).nth(5).waitFor();
    // Of so many turns no single events are told: there is the turn.
    await open(step(96_000));
    await side.getByText("No events of this step are kept").waitFor({ timeout: 30_000 });
    await side.locator(".json-box", { hasText: "96001" }).waitFor();
  },

  async "a definition is removed after a question; its runs keep their version"({ page, open, start, api }) {
    await api("POST", "/definitions", { source: DEFINITIONS.signalled.replace('"signalled"', '"leaving"') });
    const run = await start("leaving");
    await open("/definitions/leaving");
    await button(page, "Remove").click();
    await button(page.getByRole("dialog"), "Remove the definition").click();
    await page.getByRole("heading", { name: "Definitions" }).waitFor();
    await link(page, "rows").waitFor();
    equal(await link(page, "leaving").count(), 0, "it is gone");
    await api("POST", `/runs/${run}/signal`, { name: "paid" });
    await open(`/runs/${run}/definition`);
    await page.locator(".pill", { hasText: "succeeded" }).waitFor();
    await page.locator(".code-view", { hasText: "paid" }).waitFor();
    await open("/definitions/leaving?version=1");
    await page.getByText("nothing starts it any more").waitFor();
  },

  async "tokens: one is made, shown once, refused more than it may, and revoked"({ page, open, fresh, server }) {
    await open("/tokens");
    await button(page, "Make a token").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("night shift");
    await button(dialog, "Make it").click();
    await dialog.getByText("shown this once").waitFor();
    const token = await dialog.locator("code").textContent();
    holds(/^wl_/.test(token), "a token");
    await button(dialog, "Done").click();
    const row = page.locator("tr", { hasText: "night shift" });
    await row.getByText("read").waitFor();
    equal(await page.getByText(token).count(), 0, "it is not shown again");
    const reader = await fresh();
    await reader.goto(`${server.address}/tokens#token=${token}`);
    await reader.locator(".problem", { hasText: "scope" }).waitFor();
    await row.getByRole("button", { name: "Revoke" }).click();
    await button(page.getByRole("dialog"), "Revoke it").click();
    await row.waitFor({ state: "detached" });
    await reader.reload();
    await reader.getByLabel("Token").waitFor();
  },

  async "the audit log: who did what, newest first, and what was refused"({ page, open, start, api }) {
    const run = await start("signalled");
    await api("DELETE", `/runs/${run}`).catch(() => {});
    await api("POST", `/runs/${run}/cancel`, {});
    await open("/audit");
    const lines = page.locator("tbody tr");
    await lines.filter({ hasText: `POST /runs/${run}/cancel` }).getByText("done").waitFor();
    await lines.filter({ hasText: `DELETE /runs/${run}` }).getByText("refused 409").waitFor();
    await lines.filter({ hasText: `DELETE /runs/${run}` }).getByRole("button").click();
    await page.locator(".json-box", { hasText: "hash" }).waitFor();
    await page.getByPlaceholder("Who or what").fill("cancel");
    await lines.filter({ hasText: "DELETE" }).first().waitFor({ state: "detached" });
  },

  async "triggers: a schedule is added, turned off and on, changed and removed"({ page, open }) {
    await open("/triggers");
    await button(page, "Add a schedule").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Definition").selectOption("rows");
    await dialog.getByLabel("Name of the trigger").fill("nightly");
    await dialog.getByLabel("Times").fill("0 25 * * *");
    await dialog.getByLabel("Time zone").fill("Europe/Berlin");
    await button(dialog, "Add it").click();
    await dialog.locator(".problem").waitFor();
    await dialog.getByLabel("Times").fill("0 3 * * *");
    await button(dialog, "Add it").click();
    const row = page.locator("tr", { hasText: "nightly" });
    await row.getByText("0 3 * * * Europe/Berlin").waitFor();
    await row.getByText(/^in \d+[hm]/).waitFor();
    await row.getByRole("button", { name: "Turn off" }).click();
    await row.getByText("off", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Turn on" }).click();
    await row.getByText("on", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Settings" }).click();
    await dialog.getByLabel("Times").fill("30 4 * * *");
    await button(dialog, "Save").click();
    await row.getByText("30 4 * * *").waitFor();
    await row.getByRole("button", { name: "Remove" }).click();
    await button(dialog, "Remove it").click();
    await row.waitFor({ state: "detached" });
  },

  async "triggers: a webhook is told where its secret is, never the secret"({ page, open, api }) {
    await api("POST", "/definitions", { source: DEFINITIONS.called });
    await open("/triggers");
    const row = page.locator("tr", { hasText: "called" });
    await row.getByText("by token").waitFor();
    await row.getByRole("button", { name: "Settings" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("A caller proves who it is by").selectOption("signature");
    await dialog.getByLabel("Where the secret is").fill("whsec_c2VjcmV0");
    await button(dialog, "Save").click();
    await dialog.locator(".problem", { hasText: "not a reference" }).waitFor();
    await dialog.getByLabel("Where the secret is").fill("env:WINDLASS_TEST_HOOK");
    await dialog.getByLabel("Signed as").selectOption("github");
    await button(dialog, "Save").click();
    await row.getByText("by signature (github)").waitFor();
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

  async "a definition is checked as it is typed, mended and registered"({ page, open }) {
    await open("/check");
    const text = DEFINITIONS.rows.replace('"rows"', '"typed"').replace("greaterOrEquals", "greaterOrEqual");
    await page.getByLabel("Definition").fill(text);
    await page.getByText("One problem").waitFor();
    await page.locator(".said", { hasText: "did you mean" }).waitFor();
    equal(await button(page, "Register").isDisabled(), true, "what is broken is not registered");
    await page.getByLabel("Definition").fill(text.replace("greaterOrEqual", "greaterOrEquals"));
    await page.getByText("It is valid").waitFor();
    await tab(page, "Graph").click();
    await page.locator(".box.loop").first().waitFor();
    await button(page, "Register").click();
    await page.locator("h1", { hasText: "typed" }).waitFor();
  },

  async "a sample of each dialect is valid; a problem leads into the text"({ page, open }) {
    for (const dialect of ["Loom", "NoETL", "zenflow"]) {
      await open("/check");
      await page.getByLabel("Definition").fill("");
      await page.locator(".samples").getByRole("button", { name: dialect }).click();
      await page.getByText(`It is valid, ${dialect.toLowerCase()}`).waitFor();
    }
    await page.getByLabel("Definition").fill(DEFINITIONS.rows.replace("greaterOrEquals", "greaterOrEqual"));
    await page.locator(".said", { hasText: "did you mean" }).waitFor();
    await page.locator(".found").getByRole("button").first().click();
    const line = await page.getByLabel("Definition").evaluate((area) => area.value.slice(0, area.selectionStart).split("\n").length);
    holds(DEFINITIONS.rows.split("\n")[line - 1].includes("greaterOrEquals"), `line ${line}`);
    await page.getByLabel("Definition").fill("");
  },

  async "an approval: the form, what is wrong by field, and the answer"({ page, open, start }) {
    const run = await start("payment");
    await open(`/approvals?run=${run}`);
    await page.getByRole("heading", { name: "Pay the invoice?" }).waitFor();
    holds((await page.locator(".message").textContent()).includes(HOSTILE), "the message is text");
    await button(page, "Send the answer").click();
    await page.locator(".field.wrong", { hasText: "Decision" }).getByText("is required").waitFor();
    await page.getByLabel("Decision").selectOption("pay");
    await page.getByLabel("Cost centre").fill("4200");
    await button(page, "Add").click();
    await page.locator(".list-item input").fill("urgent");
    await button(page, "Send the answer").click();
    await page.getByText("Answered: Pay the invoice?").waitFor();
    await open(`/runs/${run}/data`);
    await page.locator(".pill", { hasText: "succeeded" }).waitFor();
    await page.locator(".fold-row", { hasText: "ask" }).click();
    await page.locator(".fold-in .json-box", { hasText: "urgent" }).waitFor();
  },

  async "workers, triggers and about are there"({ page, open }) {
    for (const [path, title] of [["/workers", "Workers"], ["/triggers", "Triggers"], ["/about", "About this server"]]) {
      await open(path);
      await page.getByRole("heading", { name: title }).waitFor();
    }
    await page.locator(".facts").getByText(/^\d+\.\d+\.\d+$/).waitFor();
  },

  async "keys: rows, views, help"({ page, open }) {
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
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  },

  async "dark and light are chosen and kept"({ page, open }) {
    await open("/runs");
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.locator(".nav").getByRole("button", { name: "Dark" }).click();
    const dark = await ground();
    await page.locator(".nav").getByRole("button", { name: "Light" }).click();
    holds((await ground()) !== dark, "they differ");
    await page.reload();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    holds((await ground()) !== dark, "it is kept");
  },

  async "every view can be read and reached, in light and in dark"({ page, open, ended }) {
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      for (const view of [...views(ended), `/runs/${ended.flaky}/loop?path=numbers&turn=2`]) {
        await open(view);
        await page.locator("h1").first().waitFor();
        await until(`${view} is there`, async () => (await page.locator(".skeleton").count()) === 0);
        for (const look of [hardToReach, hardToRead]) {
          const found = await page.evaluate(look);
          holds(found.length === 0, `${view} in ${theme}: ${found.join("; ")}`);
        }
      }
    }
  },

  async "the keyboard gets past the navigation, and follows into a view"({ page, open }) {
    await open("/runs");
    await page.locator("a.run-row").first().waitFor();
    await page.keyboard.press("Tab");
    equal(await page.evaluate(() => document.activeElement?.textContent), "To the content", "the first stop");
    await page.keyboard.press("Enter");
    equal(await page.evaluate(() => document.activeElement?.id), "main", "past the navigation");
    await button(page, "Start a run").focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Start a run" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.locator(".run-head").waitFor();
    equal(await page.evaluate(() => document.activeElement?.id), "main", "in the view that was opened");
    await page.getByRole("tab").first().focus();
    await page.keyboard.press("End");
    await until("the last tab", async () => page.url().endsWith("/journal"));
  },

  async "360 pixels are enough for every view"({ page, open, ended }) {
    await page.setViewportSize({ width: 360, height: 740 });
    for (const view of [...views(ended), `/runs/${ended.flaky}/loop?path=numbers&turn=2`]) {
      await open(view);
      await page.locator(".page").first().waitFor();
      const width = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.querySelector(".main")?.scrollWidth ?? 0));
      holds(width <= 360, `${view} is ${width} wide`);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
  },

  async "a stream that breaks is taken up again, and nothing is missed"({ page, open, start }) {
    await open("/runs");
    await page.getByText("Live").waitFor();
    await page.context().setOffline(true);
    const run = await start("signalled");
    await page.getByText("The server does not answer").waitFor({ timeout: 20_000 });
    await page.context().setOffline(false);
    await page.locator(`a.run-row[href$="${run}"]`).waitFor({ timeout: 20_000 });
    await page.getByText("The server does not answer").waitFor({ state: "detached" });
  },
};
