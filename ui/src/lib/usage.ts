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

/** In the money that prices are in, whichever that is; null if nothing was said. The program counts millionths. */
export function money(value: Json | undefined | null): number | null {
  const found = figures(value).find(([key]) => key === "money");
  return found ? found[1] / 1e6 : null;
}

/** `12.50`, `0.0034`, `0.000008`: small amounts matter where there are many of them. */
export function amount(value: number): string {
  if (value >= 1) return value.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, "\u2009");
  const digits = value === 0 || value >= 0.01 ? 4 : 6;
  return value.toFixed(digits).replace(/0+$/, "").replace(/\.$/, "") || "0";
}

export function tokens(value: Json | undefined | null): number | null {
  const all = figures(value).filter(([key]) => /tokens?$/i.test(key));
  const total = all.find(([key]) => /^(total_)?tokens$/i.test(key));
  if (total) return total[1];
  const parts = all.filter(([key]) => /^(input|output|prompt|completion)_?tokens$/i.test(key));
  return parts.length > 0 ? parts.reduce((sum, [, one]) => sum + one, 0) : null;
}
