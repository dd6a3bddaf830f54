// The client-side router. Path segments are percent-encoded because a definition's name may contain a slash.

import { useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from "react";

const CHANGED = "windlass:navigate";

function subscribe(listener: () => void): () => void {
  window.addEventListener("popstate", listener);
  window.addEventListener(CHANGED, listener);
  return () => {
    window.removeEventListener("popstate", listener);
    window.removeEventListener(CHANGED, listener);
  };
}

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

export function parseRoute(pathname: string, search: string): Route {
  return { parts: pathname.split("/").filter(Boolean).map(decodeSegment), query: new URLSearchParams(search) };
}

function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useRoute(): Route {
  const now = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const [pathname = "/", search = ""] = now.split(/\?(.*)/s);
  return parseRoute(pathname, search);
}

export function navigate(to: string, replace = false): void {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  window.dispatchEvent(new Event(CHANGED));
}

export type QueryValues = Record<string, string | number | boolean | null | undefined>;

/** Builds a URL: `to(["runs", id], {tab: "events"})`. Empty query values are omitted. */
export function to(parts: string[], query: QueryValues = {}): string {
  const present = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  const search = new URLSearchParams(present.map(([key, value]) => [key, String(value)])).toString();
  return `/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Changes some query parameters of the current URL and keeps the others. */
export function setQuery(values: QueryValues, replace = true): void {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "" || value === false) query.delete(key);
    else query.set(key, String(value));
  }
  const search = query.toString();
  navigate(location.pathname + (search ? `?${search}` : ""), replace);
}

export function Link({ to: target, onClick, ...rest }: { to: string } & AnchorHTMLAttributes<HTMLAnchorElement>) {
  const click = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !plain || rest.target) return;
    event.preventDefault();
    navigate(target);
  };
  return <a href={target} onClick={click} {...rest} />;
}
