// Turns of a loop as a list: the failed ones and the others are asked for by themselves, and told one after the other.

import type { Turn, Turns } from "../api/types";
import { isBad } from "./status";

export const PAGE = 100;
/** No answer is longer, however many turns have to be passed over. */
const MOST = 1000;
/** So many turns of each part are asked for again at once. */
const REFRESHED = 500;

/** What has come of turns so far, in their order. `next`: where it goes on. */
export interface Window {
  turns: Turn[];
  next: number | null;
}

/** `failed` is null where they do not come first: then all that is shown is in `rest`. */
export interface Listed {
  failed: Window | null;
  rest: Window;
}

/** One row is one turn; null is the heading of the others. */
export type Row = Turn | null;

/**
 * Each turn once. The two parts are asked for at different moments: one that has failed in between is known to the rest
 * alone, and stands with the failed ones all the same. The others come when all failed ones are there.
 */
export function rowsOf({ failed, rest }: Listed): Row[] {
  if (failed === null) return rest.turns;
  const known = new Set(failed.turns.map((turn) => turn.iteration));
  const until = failed.next ?? Infinity;
  const late = rest.turns.filter((turn) => isBad(turn.status) && turn.iteration < until && !known.has(turn.iteration));
  const first = late.length === 0 ? failed.turns : inOrder([...failed.turns, ...late]);
  if (failed.next !== null) return first;
  const others = rest.turns.filter((turn) => !isBad(turn.status) && !known.has(turn.iteration));
  if (first.length === 0 || (others.length === 0 && rest.next === null)) return [...first, ...others];
  return [...first, null, ...others];
}

/** What the list jumps over, first and last: not kept, or not ended. */
export function gapsOf({ failed, rest }: Listed, from: number): { from: number; to: number }[] {
  const known = new Set(failed?.turns.map((turn) => turn.iteration));
  const gaps = [];
  let expected = from;
  for (const { iteration } of rest.turns) {
    while (expected < iteration && known.has(expected)) expected += 1;
    let last = iteration - 1;
    while (last >= expected && known.has(last)) last -= 1;
    if (last >= expected) gaps.push({ from: expected, to: last });
    expected = iteration + 1;
  }
  return gaps;
}

/** Where the next page of the others begins, and how long it must be to hold a page of them: failed ones that are known are passed over. */
export function othersFrom(next: number, { failed }: Listed): { from: number; limit: number } {
  const known = new Set(failed?.turns.map((turn) => turn.iteration));
  let from = next;
  while (known.has(from)) from += 1;
  let limit = 0;
  for (let others = 0; others < PAGE && limit < MOST; limit += 1) others += known.has(from + limit) ? 0 : 1;
  return { from, limit };
}

/** An answer from one turn on takes the place of what was known of these turns. */
export function merged(old: Window, from: number, page: Pick<Turns, "turns" | "next">): Window {
  const end = page.next ?? Infinity;
  const last = old.turns.at(-1)?.iteration ?? -1;
  const before = old.turns.filter((turn) => turn.iteration < from);
  const after = old.turns.filter((turn) => turn.iteration >= end);
  // An answer from the middle says nothing of what has come after the last.
  const next = page.next === null || page.next === undefined ? null : page.next > last ? page.next : (old.next ?? last + 1);
  return { turns: [...before, ...page.turns, ...after], next };
}

/** A piece of what is known of a part, asked for again, and a page more. `next`: where the next piece begins, null after the last. */
export async function askedAgain(list: Listed, part: keyof Listed, from: number, ask: (from: number, limit: number) => Promise<Pick<Turns, "turns" | "next">>): Promise<{ now: Window; next: number | null }> {
  const old = list[part] ?? list.rest;
  const begin = part === "rest" ? othersFrom(from, list).from : from;
  const page = await ask(begin, Math.min(old.turns.length, REFRESHED) + PAGE);
  let now = merged(old, begin, page);
  // The others stand behind all failed ones: these stay whole, or the others would go away.
  while (part === "failed" && old.next === null && now.next !== null) now = merged(now, now.next, await ask(now.next, REFRESHED));
  const last = old.turns.at(-1)?.iteration ?? -1;
  return { now, next: page.next && page.next <= last ? page.next : null };
}

function inOrder(turns: Turn[]): Turn[] {
  return turns.sort((one, other) => one.iteration - other.iteration);
}
