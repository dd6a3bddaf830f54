// Where two values differ, leaf by leaf.

import type { Json } from "../api/types";

export interface Difference {
  /** `body.items[2].name`; empty for the whole. */
  at: string;
  /** Undefined: it is not there. */
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

/** No more than `most`: whoever looks wants the first few. */
export function differences(here: Json | undefined, there: Json | undefined, most = 30, at = ""): Difference[] {
  if (isBranch(here) && isBranch(there) && Array.isArray(here) === Array.isArray(there)) {
    const [mine, theirs] = [new Map(parts(here)), new Map(parts(there))];
    const found: Difference[] = [];
    for (const name of new Set([...mine.keys(), ...theirs.keys()])) {
      if (found.length >= most) break;
      const place = name.startsWith("[") || at === "" ? `${at}${name}` : `${at}.${name}`;
      found.push(...differences(mine.get(name), theirs.get(name), most - found.length, place));
    }
    return found;
  }
  if (here === there || JSON.stringify(here) === JSON.stringify(there)) return [];
  return [{ at, here, there }];
}

export interface Telling extends Difference {
  /** The others agree there: that this one differs may be why. */
  telling: boolean;
}

/** How one differs from the first of others; where these differ among themselves it says little, and comes last. */
export function telling(here: Json, others: Json[], most = 30): Telling[] {
  const [first, ...rest] = others;
  if (first === undefined) return [];
  const usual = new Set(rest.flatMap((other) => differences(other, first, 1000)).map((one) => one.at));
  const within = (at: string) => [...usual].some((one) => one === at || one.startsWith(`${at}.`) || one.startsWith(`${at}[`));
  const found = differences(here, first, 1000).map((one) => ({ ...one, telling: rest.length > 0 && !within(one.at) }));
  return [...found.filter((one) => one.telling), ...found.filter((one) => !one.telling)].slice(0, most);
}
