// The iterations of a loop as a list. Failed and other iterations are fetched separately and shown one section after the other.

import type { IterationPage, IterationRecord } from "../api/types";
import { isFailure } from "./status";

export const PAGE_SIZE = 100;
/** The maximum length of a page, however many known iterations have to be skipped. */
const MAX_PAGE_SIZE = 1000;
/** The maximum number of known iterations per section that one refresh requests again. */
const MAX_REFRESH = 500;

type FetchedPage = Pick<IterationPage, "iterations" | "next">;

/** The iterations of a section that were fetched so far, in order. `next`: the start of the next page. */
export interface Section {
  iterations: IterationRecord[];
  next: number | null;
}

/** `failed` is null if failed iterations do not come first; `rest` then contains everything shown. */
export interface Sections {
  failed: Section | null;
  rest: Section;
}

/** A row is one iteration; null is the heading of the rest section. */
export type ListRow = IterationRecord | null;

/**
 * Lists each iteration once. The two sections are fetched at different times: an iteration that failed in between is only in
 * the rest section but is listed with the failed ones. The rest follows when all failed iterations are loaded.
 */
export function buildRows({ failed, rest }: Sections): ListRow[] {
  if (failed === null) return rest.iterations;
  const known = new Set(failed.iterations.map((record) => record.iteration));
  const until = failed.next ?? Infinity;
  const late = rest.iterations.filter((record) => isFailure(record.status) && record.iteration < until && !known.has(record.iteration));
  const first = late.length === 0 ? failed.iterations : sortByNumber([...failed.iterations, ...late]);
  if (failed.next !== null) return first;
  const others = rest.iterations.filter((record) => !isFailure(record.status) && !known.has(record.iteration));
  if (first.length === 0 || (others.length === 0 && rest.next === null)) return [...first, ...others];
  return [...first, null, ...others];
}

/** Returns the ranges of iterations missing from the list, first and last inclusive: not retained, or not ended. */
export function findGaps({ failed, rest }: Sections, from: number): { from: number; to: number }[] {
  const known = new Set(failed?.iterations.map((record) => record.iteration));
  const gaps = [];
  let expected = from;
  for (const { iteration } of rest.iterations) {
    while (expected < iteration && known.has(expected)) expected += 1;
    let last = iteration - 1;
    while (last >= expected && known.has(last)) last -= 1;
    if (last >= expected) gaps.push({ from: expected, to: last });
    expected = iteration + 1;
  }
  return gaps;
}

/** Returns the range to request for the next page of the rest section. Known failed iterations are skipped and do not count towards the page size. */
export function nextRestRange(next: number, { failed }: Sections): { from: number; limit: number } {
  const known = new Set(failed?.iterations.map((record) => record.iteration));
  let from = next;
  while (known.has(from)) from += 1;
  let limit = 0;
  for (let others = 0; others < PAGE_SIZE && limit < MAX_PAGE_SIZE; limit += 1) others += known.has(from + limit) ? 0 : 1;
  return { from, limit };
}

/** Replaces the part of a section that starts at `from` with a newly fetched page. */
export function mergePage(old: Section, from: number, page: FetchedPage): Section {
  const end = page.next ?? Infinity;
  const last = old.iterations.at(-1)?.iteration ?? -1;
  const before = old.iterations.filter((record) => record.iteration < from);
  const after = old.iterations.filter((record) => record.iteration >= end);
  // A page from the middle does not show whether anything follows the last known iteration.
  const next = page.next === null || page.next === undefined ? null : page.next > last ? page.next : (old.next ?? last + 1);
  return { iterations: [...before, ...page.iterations, ...after], next };
}

/** Fetches one chunk of a section again, plus one page. `next`: the start of the next chunk, null after the last. */
export async function refreshSection(list: Sections, name: keyof Sections, from: number, fetchPage: (from: number, limit: number) => Promise<FetchedPage>): Promise<{ now: Section; next: number | null }> {
  const old = list[name] ?? list.rest;
  const begin = name === "rest" ? nextRestRange(from, list).from : from;
  const page = await fetchPage(begin, Math.min(old.iterations.length, MAX_REFRESH) + PAGE_SIZE);
  let now = mergePage(old, begin, page);
  // The rest is shown only when the failed section is complete, so a complete failed section must stay complete.
  while (name === "failed" && old.next === null && now.next !== null) now = mergePage(now, now.next, await fetchPage(now.next, MAX_REFRESH));
  const last = old.iterations.at(-1)?.iteration ?? -1;
  return { now, next: page.next && page.next <= last ? page.next : null };
}

function sortByNumber(records: IterationRecord[]): IterationRecord[] {
  return records.sort((one, other) => one.iteration - other.iteration);
}
