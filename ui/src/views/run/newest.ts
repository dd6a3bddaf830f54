// The number of a run's newest event, in a few small questions.

import { api, type Run } from "../../api";

/** The server may say it with the run; else it is found by doubling and halving. */
export async function newestSeq(id: string, run: Run, signal?: AbortSignal): Promise<number> {
  const said = (run as unknown as Record<string, unknown>)["events"] ?? (run as unknown as Record<string, unknown>)["last_seq"];
  if (typeof said === "number") return said;
  const isThere = async (seq: number) => (await api.events(id, { after: seq - 1, limit: 1 }, signal)).items.length > 0;
  return newestOf(isThere);
}

export async function newestOf(isThere: (seq: number) => Promise<boolean>): Promise<number> {
  if (!(await isThere(1))) return 0;
  let [low, high] = [1, 256];
  while (await isThere(high)) [low, high] = [high, high * 4];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await isThere(middle)) low = middle;
    else high = middle;
  }
  return low;
}
