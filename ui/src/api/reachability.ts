// Tracks whether the server is reachable. Every request reports its outcome here.

import { useSyncExternalStore } from "react";

let reachable = true;
const listeners = new Set<() => void>();

export function reportReachable(now: boolean): void {
  if (now === reachable) return;
  reachable = now;
  listeners.forEach((listener) => listener());
}

/** Registers a listener that is called when the server becomes unreachable or reachable again. */
export function onReachabilityChange(listener: (reachable: boolean) => void): () => void {
  const call = () => listener(reachable);
  listeners.add(call);
  return () => listeners.delete(call);
}

export function useReachable(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => reachable,
  );
}
