// Formatting of numbers, times and values for display.

import type { Json } from "../api/types";

/** `840 ms`, `3.2 s`, `4m 05s`, `2h 07m`, `3d 04h`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${pad2(seconds % 60)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h ${pad2(minutes % 60)}m`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d ${pad2(hours % 24)}h`;
}

function pad2(value: number): string {
  return String(value).padStart(2, "0");
}

export function ago(at: string | null | undefined, now: number): string {
  const time = at ? Date.parse(at) : Number.NaN;
  if (Number.isNaN(time)) return "–";
  const gone = now - time;
  if (gone < -1500) return `in ${coarse(-gone)}`;
  if (gone < 5000) return "just now";
  return `${coarse(gone)} ago`;
}

function coarse(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.round(minutes / 60);
  if (hours < 48) return `${hours}h`;
  return `${Math.round(hours / 24)}d`;
}

/** Formats a time in the browser's time zone, with milliseconds if `exact`. */
export function moment(at: string | null | undefined, exact = false): string {
  const date = at ? new Date(at) : null;
  if (date === null || Number.isNaN(date.getTime())) return "–";
  const day = `${date.getFullYear()}-${pad2(date.getMonth() + 1)}-${pad2(date.getDate())}`;
  return `${day} ${clock(at, exact)}`;
}

/** The browser's UTC offset on that date: `UTC+1`, `UTC−3:30`. Server logs are in UTC. */
export function zone(date: Date): string {
  const minutes = -date.getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "\u2212" : "+"}${hours}${rest ? `:${pad2(rest)}` : ""}`;
}

/** Formats a time with milliseconds in the browser's time zone and in UTC, for comparison with logs. */
export function stamp(at: string | null | undefined): string {
  const date = at ? new Date(at) : null;
  if (date === null || Number.isNaN(date.getTime())) return "–";
  const here = zone(date);
  return `${moment(at, true)} ${here}${here === "UTC" ? "" : ` · ${date.toISOString().replace("T", " ").replace("Z", " UTC")}`}`;
}

export function clock(at: string | null | undefined, exact = true): string {
  const date = at ? new Date(at) : null;
  if (date === null || Number.isNaN(date.getTime())) return "–";
  const time = `${pad2(date.getHours())}:${pad2(date.getMinutes())}:${pad2(date.getSeconds())}`;
  return exact ? `${time}.${String(date.getMilliseconds()).padStart(3, "0")}` : time;
}

export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

export function plural(value: number, word: string): string {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let left = value / 1024;
  let unit = 0;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${left < 10 ? left.toFixed(1) : Math.round(left)} ${units[unit]}`;
}

/** Formats a value on one line, truncated to `max` characters. An HTTP reply, also one inside the value, is shown by its body, as in the terminal. */
export function brief(value: unknown, max = 120): string {
  if (value === undefined) return "";
  const reply = httpReply(value);
  const shown = reply ? reply.body : value;
  const text = typeof shown === "string" ? shown : shown === undefined ? "" : JSON.stringify(shown, (_, inner: unknown) => withoutHeaders(inner));
  const line = `${reply?.prefix ?? ""}${text ?? ""}`.replace(/\s+/g, " ");
  return line.length > max ? `${line.slice(0, max - 1)}…` : line;
}

/** Returns the body of an HTTP reply, and its status if that is no success or if there is no body. */
function httpReply(value: unknown): { prefix: string; body: unknown } | null {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  const map = value as Record<string, unknown>;
  const headers = map["headers"];
  if (headers === null || typeof headers !== "object" || Array.isArray(headers)) return null;
  const [status, body] = typeof map["statusCode"] === "number" ? [map["statusCode"], map["body"]] : [map["status_code"], map["data"]];
  if (typeof status !== "number") return null;
  if (body === null || body === undefined || body === "") return { prefix: `HTTP ${status}`, body: undefined };
  return { prefix: status >= 200 && status < 300 ? "" : `HTTP ${status} `, body };
}

/** Replaces a reply inside another value. */
function withoutHeaders(value: unknown): unknown {
  const reply = httpReply(value);
  if (reply === null) return value;
  return reply.prefix === "" ? reply.body : reply.body === undefined ? reply.prefix : { [reply.prefix.trim()]: reply.body };
}

/** Parses a form field as JSON; an empty field gives undefined. */
export function parseJsonField(field: string, text: string): Json | undefined {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw new Error(`${field}: invalid JSON (${error instanceof Error ? error.message : "parse error"}). Put strings in double quotes.`);
  }
}

/** `timed_out` → `timed out`. */
export function humanize(name: string): string {
  return name.replaceAll("_", " ");
}
