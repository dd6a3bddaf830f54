// Finds the approximate sequence number of a run's newest event with a few small requests.

import { api, type Run } from "../../api";

/** The tolerance of the search: this many further events are read in one page. */
const TOLERANCE = 500;

/** Returns the number if the server sends it with the run, else searches for it. Never exceeds the real number. */
export async function newestSeq(id: string, run: Run, signal?: AbortSignal): Promise<number> {
  const total = (run as unknown as Record<string, unknown>)["events"];
  if (typeof total === "number") return total;
  return searchNewest(async (seq) => (await api.events(id, { after: seq - 1, limit: 1 }, signal)).items.length > 0);
}

/** Searches with several concurrent probes per round, because round trips dominate the time. */
export async function searchNewest(exists: (seq: number) => Promise<boolean>): Promise<number> {
  let [low, high] = [0, TOLERANCE];
  for (let probes = [TOLERANCE, TOLERANCE * 16, TOLERANCE * 256, TOLERANCE * 4096]; ; probes = probes.map((seq) => seq * 65_536)) {
    const found = await Promise.all(probes.map(exists));
    const first = found.indexOf(false);
    low = (first === -1 ? probes.at(-1) : probes[first - 1]) ?? low;
    if (first !== -1) {
      high = probes[first] ?? high;
      break;
    }
  }
  while (high - low > TOLERANCE) {
    const step = Math.ceil((high - low) / 6);
    const probes = Array.from({ length: 5 }, (_, at) => low + step * (at + 1)).filter((seq) => seq < high);
    const found = await Promise.all(probes.map(exists));
    const first = found.indexOf(false);
    const base = low;
    low = (first === -1 ? probes.at(-1) : probes[first - 1]) ?? base;
    high = first === -1 ? high : (probes[first] ?? high);
  }
  return low;
}
