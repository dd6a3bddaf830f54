// A stream that goes on after the connection broke. EventSource cannot send the token, so it is fetch.

import { address, authorised, isAborted, problemOf, type Problem, type Query } from "./client";
import { heard as answered, onReach } from "./reach";
import { SseParser, type Message } from "./sse";

export type Link = "connecting" | "open" | "broken" | "ended" | "resting";

interface Following {
  query?: Query;
  lastId?: string | null;
  onMessages(messages: Message[]): void;
  onLink?(link: Link): void;
  /** The server has refused for good. */
  onProblem?(problem: Problem): void;
  /** After a break without ids, what was missed has to be asked for. */
  onAgain?(): void;
}

const WAITS_MS = [500, 1000, 2000, 5000, 10000];
/** The server says something every 15 s. */
const SILENCE_MS = 40_000;
/** A tab that nobody looks at gives its connection back: a browser has six for a server. */
const UNSEEN_MS = 30_000;

/** Follows until it is told to stop, the stream says `end`, or the server refuses. */
export function follow(path: string, following: Following): () => void {
  let stopped = false;
  let lastId = following.lastId ?? null;
  let tries = 0;
  let opened = 0;
  let abort: AbortController | null = null;
  let wake: (() => void) | null = null;
  let unseen: ReturnType<typeof setTimeout> | undefined;
  const say = (link: Link) => following.onLink?.(link);

  const onVisibility = () => {
    clearTimeout(unseen);
    if (document.visibilityState === "hidden") {
      unseen = setTimeout(() => abort?.abort(), UNSEEN_MS);
    } else {
      wake?.();
    }
  };
  document.addEventListener("visibilitychange", onVisibility);
  // Whoever hears first that the server is back tells all that wait for it.
  const forget = onReach((reached) => {
    if (reached && document.visibilityState === "visible") wake?.();
  });

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function once(): Promise<"end" | "again"> {
    abort = new AbortController();
    const { signal } = abort;
    let silence = setTimeout(() => abort?.abort(), SILENCE_MS);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort?.abort(), SILENCE_MS);
    };
    try {
      const headers = authorised({ Accept: "text/event-stream" });
      if (lastId !== null) headers["Last-Event-ID"] = lastId;
      const response = await fetch(address(path, following.query), { headers, signal, cache: "no-store" });
      answered(true);
      if (!response.ok) {
        const problem = await problemOf(response);
        if (response.status < 500 && response.status !== 429) {
          following.onProblem?.(problem);
          return "end";
        }
        throw problem;
      }
      if (response.body === null) return "end";
      say("open");
      tries = 0;
      opened += 1;
      if (opened > 1) following.onAgain?.();
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const parser = new SseParser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "again";
        heard();
        const messages = parser.push(decoder.decode(value, { stream: true }));
        if (stopped) return "end";
        const kept = messages.filter((message) => message.event !== "end");
        lastId = messages.at(-1)?.id ?? lastId;
        if (kept.length > 0) following.onMessages(kept);
        if (kept.length < messages.length) return "end";
      }
    } finally {
      clearTimeout(silence);
    }
  }

  async function run(): Promise<void> {
    while (!stopped) {
      say(tries === 0 ? "connecting" : "broken");
      try {
        if ((await once()) === "end") {
          say("ended");
          return;
        }
      } catch (error) {
        if (stopped) return;
        if (!isAborted(error)) tries += 1;
        if (error instanceof TypeError) answered(false);
      }
      if (stopped) return;
      if (document.visibilityState === "hidden") {
        say("resting");
        await new Promise<void>((resolve) => (wake = resolve));
      } else {
        const wait = WAITS_MS[Math.min(tries, WAITS_MS.length - 1)] ?? 1000;
        await pause(wait * (0.75 + Math.random() / 2));
      }
    }
  }
  void run();

  return () => {
    stopped = true;
    clearTimeout(unseen);
    document.removeEventListener("visibilitychange", onVisibility);
    forget();
    abort?.abort();
    wake?.();
  };
}
