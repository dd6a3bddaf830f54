// Model usage: cost and token counters, by the names the engine gives them.

import type { Json } from "../api/types";

function counters(value: Json | undefined | null): [string, number][] {
  if (value === null || value === undefined || typeof value !== "object" || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, one]): [string, number][] => {
    if (typeof one === "number") return [[key, one]];
    // Amounts may be strings, to keep their precision.
    if (typeof one === "string" && /^\d+(\.\d+)?$/.test(one)) return [[key, Number(one)]];
    return [];
  });
}

/** The cost in the currency of the configured prices, or null if unknown. The engine counts millionths. */
export function money(value: Json | undefined | null): number | null {
  const found = counters(value).find(([key]) => key === "money");
  return found ? found[1] / 1e6 : null;
}

/** Formats an amount: `12.50`, `0.0034`, `0.000008`. Small amounts keep their digits because they add up over many calls. */
export function amount(value: number): string {
  if (value >= 1) return value.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, "\u2009");
  const digits = value === 0 || value >= 0.01 ? 4 : 6;
  return value.toFixed(digits).replace(/0+$/, "").replace(/\.$/, "") || "0";
}

export function tokens(value: Json | undefined | null): number | null {
  const all = counters(value).filter(([key]) => /tokens?$/i.test(key));
  const total = all.find(([key]) => /^(total_)?tokens$/i.test(key));
  if (total) return total[1];
  const parts = all.filter(([key]) => /^(input|output|prompt|completion)_?tokens$/i.test(key));
  return parts.length > 0 ? parts.reduce((sum, [, one]) => sum + one, 0) : null;
}
