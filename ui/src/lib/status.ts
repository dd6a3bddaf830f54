export const RUN_STATUSES = [
  "running",
  "interrupted",
  "waiting",
  "paused",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
  "quarantined",
] as const;

/** Final statuses. A quarantined run has not ended: it waits for an operator and is not resumed automatically. */
const ENDED = new Set(["succeeded", "failed", "skipped", "cancelled", "timed_out", "partial"]);

export function hasEnded(status: string): boolean {
  return ENDED.has(status);
}

/** Whether the status is a failure. Cancelled is none: it was requested from outside. */
export function isFailure(status: string): boolean {
  return status === "failed" || status === "timed_out";
}

/** The colour class of a status. Several statuses share one; their icons and labels differ. */
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
    case "interrupted":
    case "retrying":
    case "partial":
      return "warn";
    default:
      return "calm";
  }
}
