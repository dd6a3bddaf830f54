// The colour theme: the system's setting unless the user chooses another.

import { useSyncExternalStore } from "react";

export type Theme = "system" | "dark" | "light";
const STORAGE_KEY = "windlass.theme";
const listeners = new Set<() => void>();

function storedTheme(): Theme {
  try {
    const value = localStorage.getItem(STORAGE_KEY);
    return value === "dark" || value === "light" ? value : "system";
  } catch {
    return "system";
  }
}

let theme: Theme = "system";

export function applyTheme(next: Theme = storedTheme()): void {
  theme = next;
  if (next === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", next);
  try {
    if (next === "system") localStorage.removeItem(STORAGE_KEY);
    else localStorage.setItem(STORAGE_KEY, next);
  } catch {
    // Without local storage the theme applies only until the page is reloaded.
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
