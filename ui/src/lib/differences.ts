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
