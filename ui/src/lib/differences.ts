// A structural diff of two JSON values, leaf by leaf.

import type { Json } from "../api/types";

export interface Difference {
  /** The path of the leaf, such as `body.items[2].name`; empty for the whole value. */
  at: string;
  /** Undefined if the value is absent. */
  here: Json | undefined;
  there: Json | undefined;
}

type Branches = { [key: string]: Json } | Json[];

function isBranch(value: Json | undefined): value is Branches {
  return value !== null && typeof value === "object";
}

function parts(value: Branches): [string, Json][] {
  return Array.isArray(value) ? value.map((one, at): [string, Json] => [`[${at}]`, one]) : Object.entries(value);
}

/** Lists the differences of two values, `max` at most. */
export function differences(here: Json | undefined, there: Json | undefined, max = 30, at = ""): Difference[] {
  if (isBranch(here) && isBranch(there) && Array.isArray(here) === Array.isArray(there)) {
    const [mine, theirs] = [new Map(parts(here)), new Map(parts(there))];
    const found: Difference[] = [];
    for (const name of new Set([...mine.keys(), ...theirs.keys()])) {
      if (found.length >= max) break;
      const path = name.startsWith("[") || at === "" ? `${at}${name}` : `${at}.${name}`;
      found.push(...differences(mine.get(name), theirs.get(name), max - found.length, path));
    }
    return found;
  }
  if (here === there || JSON.stringify(here) === JSON.stringify(there)) return [];
  return [{ at, here, there }];
}

export interface RankedDifference extends Difference {
  /** The other values agree at this path, so the difference may explain the failure. */
  distinctive: boolean;
}

/** Compares a value with the first of `others`. Differences at paths where the others disagree among themselves come last. */
export function rankDifferences(here: Json, others: Json[], max = 30): RankedDifference[] {
  const [first, ...rest] = others;
  if (first === undefined) return [];
  const varying = new Set(rest.flatMap((other) => differences(other, first, 1000)).map((one) => one.at));
  const varies = (at: string) => [...varying].some((one) => one === at || one.startsWith(`${at}.`) || one.startsWith(`${at}[`));
  const found = differences(here, first, 1000).map((one) => ({ ...one, distinctive: rest.length > 0 && !varies(one.at) }));
  return [...found.filter((one) => one.distinctive), ...found.filter((one) => !one.distinctive)].slice(0, max);
}
