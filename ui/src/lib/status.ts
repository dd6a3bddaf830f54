export const RUN_STATUSES = [
  "running",
  "waiting",
  "paused",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
  "quarantined",
] as const;

/** A run that is quarantined waits for a person; nobody goes on with it by itself. */
const ENDED = new Set(["succeeded", "failed", "skipped", "cancelled", "timed_out", "partial"]);

export function hasEnded(status: string): boolean {
  return ENDED.has(status);
}

/** It went wrong by itself; what was cancelled was stopped from outside. */
export function isBad(status: string): boolean {
  return status === "failed" || status === "timed_out";
}

/** Which colour: several statuses share one, their marks and words differ. */
export function tone(status: string): string {
  switch (status) {
    case "succeeded":
      return "good";
    case "failed":
    case "timed_out":
    case "quarantined":
    case "lost":
      return "bad";
    case "running":
      return "live";
    case "waiting":
    case "paused":
    case "queued":
    case "draining":
      return "wait";
    case "cancelled":
    case "retrying":
    case "partial":
      return "warn";
    default:
      return "calm";
  }
}
