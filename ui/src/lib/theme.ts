// Dark or light: as the system has it until somebody says otherwise.

import { useSyncExternalStore } from "react";

export type Theme = "system" | "dark" | "light";
const KEPT_AS = "windlass.theme";
const listeners = new Set<() => void>();

function kept(): Theme {
  try {
    const value = localStorage.getItem(KEPT_AS);
    return value === "dark" || value === "light" ? value : "system";
  } catch {
    return "system";
  }
}

let theme: Theme = "system";

export function applyTheme(next: Theme = kept()): void {
  theme = next;
  if (next === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", next);
  try {
    if (next === "system") localStorage.removeItem(KEPT_AS);
    else localStorage.setItem(KEPT_AS, next);
  } catch {
    // A browser that keeps nothing still shows it.
  }
  listeners.forEach((listener) => listener());
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => theme,
  );
}
