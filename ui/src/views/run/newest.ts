// About how many events a run has told, in a few small questions.

import { api, type Run } from "../../api";

/** Near enough: as many events more are read in one go. */
const NEAR = 500;

/** The server may say it with the run; else it is looked for. Never more than there are. */
export async function newestSeq(id: string, run: Run, signal?: AbortSignal): Promise<number> {
  const said = (run as unknown as Record<string, unknown>)["events"];
  if (typeof said === "number") return said;
  return newestNear(async (seq) => (await api.events(id, { after: seq - 1, limit: 1 }, signal)).items.length > 0);
}

/** Several places are asked about at once: what takes long is the way to the server. */
export async function newestNear(isThere: (seq: number) => Promise<boolean>): Promise<number> {
  let [low, high] = [0, NEAR];
  for (let probes = [NEAR, NEAR * 16, NEAR * 256, NEAR * 4096]; ; probes = probes.map((seq) => seq * 65_536)) {
    const there = await Promise.all(probes.map(isThere));
    const first = there.indexOf(false);
    low = (first === -1 ? probes.at(-1) : probes[first - 1]) ?? low;
    if (first !== -1) {
      high = probes[first] ?? high;
      break;
    }
  }
  while (high - low > NEAR) {
    const step = Math.ceil((high - low) / 6);
    const probes = Array.from({ length: 5 }, (_, at) => low + step * (at + 1)).filter((seq) => seq < high);
    const there = await Promise.all(probes.map(isThere));
    const first = there.indexOf(false);
    const base = low;
    low = (first === -1 ? probes.at(-1) : probes[first - 1]) ?? base;
    high = first === -1 ? high : (probes[first] ?? high);
  }
  return low;
}
