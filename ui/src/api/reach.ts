// Whether the server answers. One place knows; all that asks tells it.

import { useSyncExternalStore } from "react";

let reached = true;
const listeners = new Set<() => void>();

export function heard(answered: boolean): void {
  if (answered === reached) return;
  reached = answered;
  listeners.forEach((listener) => listener());
}

/** Called when the server goes away or is back. */
export function onReach(listener: (reached: boolean) => void): () => void {
  const call = () => listener(reached);
  listeners.add(call);
  return () => listeners.delete(call);
}

export function useReached(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => reached,
  );
}
