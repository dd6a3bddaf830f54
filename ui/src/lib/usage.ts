// What models have used, as figures; the counters' names are the program's.

import type { Json } from "../api/types";

function figures(value: Json | undefined | null): [string, number][] {
  if (value === null || value === undefined || typeof value !== "object" || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, one]): [string, number][] => {
    if (typeof one === "number") return [[key, one]];
    // Money may be written as a text, so that nothing is lost.
    if (typeof one === "string" && /^\d+(\.\d+)?$/.test(one)) return [[key, Number(one)]];
    return [];
  });
}

/** In dollars; null if nothing was said. */
export function money(value: Json | undefined | null): number | null {
  for (const [key, one] of figures(value)) {
    if (/nano_?usd|nanodollars/i.test(key)) return one / 1e9;
    if (/micro_?usd|microdollars/i.test(key)) return one / 1e6;
    if (/usd|^cost$|dollars/i.test(key)) return one;
  }
  return null;
}

export function tokens(value: Json | undefined | null): number | null {
  const all = figures(value).filter(([key]) => /tokens?$/i.test(key));
  const total = all.find(([key]) => /^(total_)?tokens$/i.test(key));
  if (total) return total[1];
  const parts = all.filter(([key]) => /^(input|output|prompt|completion)_?tokens$/i.test(key));
  return parts.length > 0 ? parts.reduce((sum, [, one]) => sum + one, 0) : null;
}
