// Browser test cases of signing in, and of the size of the first view.

import { equal, holds, until } from "./harness.mjs";

const button = (page, name) => page.getByRole("button", { name, exact: true });
const heading = (page, name) => page.getByRole("heading", { name, exact: true });
const field = (page) => page.getByLabel("Token");

/** Everything that a script of the page can read. */
const readable = (page) => page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]));

/** The goal for everything that the browser receives for the first view, heads included. */
const MAX_FIRST_VIEW_BYTES = 100_000;

export const SIGN_IN_CASES = {
  async "sign-in: a wrong token is rejected, the right one is accepted"({ fresh, server }) {
    const page = await fresh();
    await page.goto(server.address);
    await field(page).fill("wl_wrong");
    await button(page, "Sign in").click();
    await page.getByText("unknown or revoked").waitFor();
    await field(page).fill(server.token);
    await button(page, "Sign in").click();
    await heading(page, "Runs").waitFor();
  },

  async "sign-in: a link to a run asks once, leads to the run, and holds for other tabs and after a reload"({ fresh, server, ended }) {
    const link = `${server.address}/runs/${ended.rows}/events?type=step.done`;
    const page = await fresh();
    await page.goto(link);
    await field(page).fill(server.token);
    await button(page, "Sign in").click();
    await page.getByRole("tab", { name: "Events", selected: true }).waitFor();
    equal(page.url(), link, "the page that the link named");
    const tab = await page.context().newPage();
    await tab.goto(`${server.address}/runs`);
    await tab.getByText("Live").waitFor();
    equal(await field(tab).count(), 0, "the second tab asks for nothing");
    await page.reload();
    await page.getByRole("tab", { name: "Events", selected: true }).waitFor();
    const traces = await readable(page);
    holds(!/wl[sc]?_/.test(traces), `no script can read a secret: ${traces}`);
    // The colleague who gets the link has another browser.
    const other = await fresh();
    await other.goto(link);
    await field(other).fill(server.token);
    await button(other, "Sign in").click();
    await other.getByRole("tab", { name: "Events", selected: true }).waitFor();
    equal(other.url(), link, "the shared link");
  },

  async "sign-in: a tab that asks for the token continues when another tab has signed in"({ fresh, server }) {
    const page = await fresh();
    await page.goto(`${server.address}/definitions`);
    await field(page).waitFor();
    const other = await page.context().newPage();
    await other.goto(server.address);
    await field(other).fill(server.token);
    await button(other, "Sign in").click();
    await heading(other, "Runs").waitFor();
    await page.evaluate(() => window.dispatchEvent(new Event("focus")));
    await heading(page, "Definitions").waitFor();
  },

  async "sign-in: the link on the terminal works once and leaves no trace"({ fresh, serve }) {
    const server = await serve({ command: ["serve", "--bind", "127.0.0.1:0"], terminal: true });
    try {
      const page = await fresh(server);
      await page.goto(server.link);
      await heading(page, "Runs").waitFor();
      holds(!(await readable(page)).includes("wlc_"), "the code is gone");
      await page.reload();
      await heading(page, "Runs").waitFor();
      const other = await fresh(server);
      await other.goto(server.link);
      await other.getByText("used already").waitFor();
      holds(!(await readable(other)).includes("wlc_"), "the code is gone");
      // A page would report that its server is gone.
      for (const one of [page, other]) await one.context().close();
    } finally {
      await server.stop();
    }
  },

  async "sign-in: `windlass dev` asks for nothing"({ fresh, serve }) {
    const server = await serve({ command: ["dev", "--port", "0", "--json"] });
    try {
      const page = await fresh(server);
      await page.goto(`${server.address}/about`);
      await page.getByText("requires no token").waitFor();
      equal(await button(page, "Sign out").count(), 0, "there is nothing to sign out from");
      await page.context().close();
    } finally {
      await server.stop();
    }
  },

  async "sign-out: the session ends in all tabs"({ page, open, server }) {
    await open("/runs");
    const tab = await page.context().newPage();
    await tab.goto(`${server.address}/definitions`);
    await heading(tab, "Definitions").waitFor();
    await button(page, "Sign out").first().click();
    await field(page).waitFor();
    await tab.goto(`${server.address}/workers`);
    await field(tab).waitFor();
    const cookies = await page.context().cookies();
    equal(cookies.filter((one) => one.name.includes("windlass")), [], "the cookie is gone");
  },

  async "sessions: changes are accepted after another tab has signed in again"({ page, open, start, signIn, api }) {
    const run = await start("signalled");
    await open(`/runs/${run}`);
    await button(page, "Cancel").waitFor();
    await signIn(page.context());
    await button(page, "Cancel").click();
    await button(page.getByRole("dialog"), "Cancel run").click();
    await until("its end", async () => (await api("GET", `/runs/${run}`)).status === "cancelled");
  },

  async "the first view is small"({ page, signIn, server }) {
    await signIn(page.context());
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Network.enable");
    const [paths, sizes] = [new Map(), new Map()];
    devtools.on("Network.requestWillBeSent", ({ requestId, request }) => paths.set(requestId, new URL(request.url).pathname));
    devtools.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => sizes.set(paths.get(requestId), encodedDataLength));
    const document = await (await page.goto(`${server.address}/runs`)).text();
    await page.getByText("Live").waitFor();
    await page.locator("a.run-row").first().waitFor();
    // Scripts that the document does not name belong to views that are loaded in advance.
    const assets = [...document.matchAll(/"(\/assets\/[^"]+)"/g)].map(([, path]) => path);
    const calls = ["/runs", "/api/v1/session", "/api/v1/runs", "/api/v1/runs/counts", "/api/v1/definitions", "/api/v1/approvals"];
    const first = [...assets, ...calls];
    await until("the requests of the view have ended", async () => first.every((path) => sizes.has(path)));
    const bytes = first.reduce((sum, path) => sum + sizes.get(path), 0);
    holds(bytes > 20_000 && bytes <= MAX_FIRST_VIEW_BYTES, `${bytes} bytes were transferred`);
  },
};
