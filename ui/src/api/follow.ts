// Follows a server-sent event stream and reconnects when the connection breaks. It uses fetch because EventSource hides the status and body of an error response.

import { apiUrl, isAborted, parseProblem, type Problem, type Query } from "./client";
import { onReachabilityChange, reportReachable } from "./reachability";
import { SseParser, type SseMessage } from "./sse";

/** `idle`: the tab is hidden and has closed its connection. */
export type StreamState = "connecting" | "open" | "broken" | "ended" | "idle";

interface FollowOptions {
  query?: Query;
  lastId?: string | null;
  onMessages(messages: SseMessage[]): void;
  onState?(state: StreamState): void;
  /** The server rejected the request permanently. */
  onProblem?(problem: Problem): void;
  /** The stream was reopened. A stream without event ids does not replay missed messages, so the caller must reload. */
  onReconnect?(): void;
}

const BACKOFF_MS = [500, 1000, 2000, 5000, 10000];
/** Reconnects after this long without data; the server sends a heartbeat every 15 s. */
const MAX_SILENCE_MS = 40_000;
/** A hidden tab closes its connection after this time: a browser opens at most six per server. */
const MAX_HIDDEN_MS = 30_000;

/** Follows the stream until the returned function is called, the stream sends `end`, or the server rejects the request. */
export function follow(path: string, options: FollowOptions): () => void {
  let stopped = false;
  let lastId = options.lastId ?? null;
  let attempts = 0;
  let opened = 0;
  let abort: AbortController | null = null;
  let wake: (() => void) | null = null;
  let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  const setState = (state: StreamState) => options.onState?.(state);

  const onVisibility = () => {
    clearTimeout(hiddenTimer);
    if (document.visibilityState === "hidden") {
      hiddenTimer = setTimeout(() => abort?.abort(), MAX_HIDDEN_MS);
    } else {
      wake?.();
    }
  };
  document.addEventListener("visibilitychange", onVisibility);
  // The first request that reaches the server again wakes all waiting streams.
  const unsubscribe = onReachabilityChange((reachable) => {
    if (reachable && document.visibilityState === "visible") wake?.();
  });

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function connect(): Promise<"end" | "reconnect"> {
    abort = new AbortController();
    const { signal } = abort;
    let silenceTimer = setTimeout(() => abort?.abort(), MAX_SILENCE_MS);
    const resetSilence = () => {
      clearTimeout(silenceTimer);
      silenceTimer = setTimeout(() => abort?.abort(), MAX_SILENCE_MS);
    };
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastId !== null) headers["Last-Event-ID"] = lastId;
      const response = await fetch(apiUrl(path, options.query), { headers, signal, cache: "no-store" });
      reportReachable(true);
      if (!response.ok) {
        const problem = await parseProblem(response);
        if (response.status < 500 && response.status !== 429) {
          options.onProblem?.(problem);
          return "end";
        }
        throw problem;
      }
      if (response.body === null) return "end";
      setState("open");
      attempts = 0;
      opened += 1;
      if (opened > 1) options.onReconnect?.();
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const parser = new SseParser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "reconnect";
        resetSilence();
        const messages = parser.push(decoder.decode(value, { stream: true }));
        if (stopped) return "end";
        const received = messages.filter((message) => message.event !== "end");
        lastId = messages.at(-1)?.id ?? lastId;
        if (received.length > 0) options.onMessages(received);
        if (received.length < messages.length) return "end";
      }
    } finally {
      clearTimeout(silenceTimer);
    }
  }

  async function run(): Promise<void> {
    while (!stopped) {
      setState(attempts === 0 ? "connecting" : "broken");
      try {
        if ((await connect()) === "end") {
          setState("ended");
          return;
        }
      } catch (error) {
        if (stopped) return;
        if (!isAborted(error)) attempts += 1;
        if (error instanceof TypeError) reportReachable(false);
      }
      if (stopped) return;
      if (document.visibilityState === "hidden") {
        setState("idle");
        await new Promise<void>((resolve) => (wake = resolve));
      } else {
        const wait = BACKOFF_MS[Math.min(attempts, BACKOFF_MS.length - 1)] ?? 1000;
        await pause(wait * (0.75 + Math.random() / 2));
      }
    }
  }
  void run();

  return () => {
    stopped = true;
    clearTimeout(hiddenTimer);
    document.removeEventListener("visibilitychange", onVisibility);
    unsubscribe();
    abort?.abort();
    wake?.();
  };
}
