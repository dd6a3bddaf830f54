// The icons of the web UI: 16 by 16, in the current text colour.

import type { ReactNode } from "react";

const line = { fill: "none", stroke: "currentColor", strokeWidth: 1.6, strokeLinecap: "round", strokeLinejoin: "round" } as const;

const MARKS: Record<string, ReactNode> = {
  succeeded: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" />
      <path d="M5 8.2 7.2 10.4 11.2 6" {...line} className="mark-in" />
    </>
  ),
  failed: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" />
      <path d="M5.8 5.8 10.2 10.2M10.2 5.8 5.8 10.2" {...line} className="mark-in" />
    </>
  ),
  timed_out: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" />
      <path d="M8 4.6V8l2.3 1.6" {...line} className="mark-in" />
    </>
  ),
  running: (
    <>
      <circle cx="8" cy="8" r="6" {...line} strokeWidth={2} opacity="0.28" />
      <path d="M8 2a6 6 0 0 1 6 6" {...line} strokeWidth={2} className="spin" />
    </>
  ),
  interrupted: (
    <>
      <circle cx="8" cy="8" r="6" {...line} strokeDasharray="9 3.6" />
      <path d="M8 4.8v3.8M8 11.2h.01" {...line} />
    </>
  ),
  waiting: (
    <>
      <circle cx="8" cy="8" r="6" {...line} />
      <path d="M8 4.8V8l2.2 1.4" {...line} />
    </>
  ),
  paused: (
    <>
      <circle cx="8" cy="8" r="6" {...line} />
      <path d="M6.4 5.8v4.4M9.6 5.8v4.4" {...line} />
    </>
  ),
  queued: <circle cx="8" cy="8" r="6" {...line} strokeDasharray="1.6 2.4" />,
  pending: <circle cx="8" cy="8" r="6" {...line} />,
  retrying: (
    <>
      <path d="M13.3 6.2A5.7 5.7 0 1 0 13.4 9.8" {...line} />
      <path d="M13.8 3v3.4h-3.4" {...line} />
    </>
  ),
  skipped: (
    <>
      <circle cx="8" cy="8" r="6" {...line} />
      <path d="M5.4 8h5.2" {...line} />
    </>
  ),
  cancelled: (
    <>
      <circle cx="8" cy="8" r="6" {...line} />
      <path d="M3.9 12.1 12.1 3.9" {...line} />
    </>
  ),
  quarantined: (
    <>
      <path d="M8 1.8 14.4 13.4H1.6z" {...line} />
      <path d="M8 6.4v3M8 11.5h.01" {...line} />
    </>
  ),
  partial: (
    <>
      <circle cx="8" cy="8" r="6" {...line} />
      <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
    </>
  ),
};

export function Mark({ status, size = 16 }: { status: string; size?: number }) {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      {MARKS[status] ?? MARKS["pending"]}
    </svg>
  );
}

const ICONS = {
  runs: <path d="M2.5 4h11M2.5 8h11M2.5 12h7" {...line} />,
  definitions: (
    <>
      <rect x="2.5" y="2.5" width="4.5" height="4" rx="1" {...line} />
      <rect x="9" y="9.5" width="4.5" height="4" rx="1" {...line} />
      <path d="M4.75 6.5v3a2 2 0 0 0 2 2H9" {...line} />
    </>
  ),
  approvals: (
    <>
      <circle cx="8" cy="5.2" r="2.7" {...line} />
      <path d="M2.8 13.6a5.2 5.2 0 0 1 10.4 0" {...line} />
    </>
  ),
  triggers: <path d="M9 1.8 3.4 9H8l-1 5.2L12.6 7H8z" {...line} />,
  workers: (
    <>
      <rect x="2.2" y="2.8" width="11.6" height="4.4" rx="1.2" {...line} />
      <rect x="2.2" y="8.8" width="11.6" height="4.4" rx="1.2" {...line} />
      <path d="M4.8 5h.01M4.8 11h.01" {...line} />
    </>
  ),
  log: <path d="M3.2 2.4h9.6v11.2H3.2zM5.6 5.4h4.8M5.6 8h4.8M5.6 10.6h2.8" {...line} />,
  trash: <path d="M2.8 4.4h10.4M6.2 4.2V2.6h3.6v1.6M4.2 4.6l.6 8.8h6.4l.6-8.8M6.8 7v4M9.2 7v4" {...line} />,
  about: (
    <>
      <circle cx="8" cy="8" r="6" {...line} />
      <path d="M8 7.4v3.4M8 5.1h.01" {...line} />
    </>
  ),
  search: (
    <>
      <circle cx="7" cy="7" r="4.4" {...line} />
      <path d="m10.4 10.4 3.2 3.2" {...line} />
    </>
  ),
  play: <path d="M5 3.2v9.6l7.6-4.8z" {...line} />,
  pause: <path d="M5.4 3.4v9.2M10.6 3.4v9.2" {...line} />,
  stop: <rect x="3.8" y="3.8" width="8.4" height="8.4" rx="1.2" {...line} />,
  bell: (
    <>
      <path d="M3.6 11.4c.9-.9 1.1-2 1.1-4a3.3 3.3 0 0 1 6.6 0c0 2 .2 3.1 1.1 4z" {...line} />
      <path d="M6.8 13.6h2.4" {...line} />
    </>
  ),
  retry: (
    <>
      <path d="M13.3 6.2A5.7 5.7 0 1 0 13.4 9.8" {...line} />
      <path d="M13.8 3v3.4h-3.4" {...line} />
    </>
  ),
  restart: (
    <>
      <path d="M2.7 6.2A5.7 5.7 0 1 1 2.6 9.8" {...line} />
      <path d="M2.2 3v3.4h3.4" {...line} />
    </>
  ),
  copy: (
    <>
      <rect x="5.4" y="5.4" width="8" height="8" rx="1.4" {...line} />
      <path d="M10.6 5.2V3.9a1.4 1.4 0 0 0-1.4-1.4H3.9a1.4 1.4 0 0 0-1.4 1.4v5.3a1.4 1.4 0 0 0 1.4 1.4h1.3" {...line} />
    </>
  ),
  check: <path d="m3 8.6 3.2 3.2L13 4.6" {...line} />,
  close: <path d="M3.8 3.8 12.2 12.2M12.2 3.8 3.8 12.2" {...line} />,
  plus: <path d="M8 3v10M3 8h10" {...line} />,
  minus: <path d="M3 8h10" {...line} />,
  right: <path d="m6 3.5 4.5 4.5L6 12.5" {...line} />,
  down: <path d="M3.5 6 8 10.5 12.5 6" {...line} />,
  fit: <path d="M2.8 6V2.8H6M10 2.8h3.2V6M13.2 10v3.2H10M6 13.2H2.8V10" {...line} />,
  sun: (
    <>
      <circle cx="8" cy="8" r="2.8" {...line} />
      <path d="M8 1.6v1.2M8 13.2v1.2M1.6 8h1.2M13.2 8h1.2M3.5 3.5l.8.8M11.7 11.7l.8.8M12.5 3.5l-.8.8M4.3 11.7l-.8.8" {...line} />
    </>
  ),
  moon: <path d="M13.4 9.6A5.8 5.8 0 0 1 6.4 2.6a5.8 5.8 0 1 0 7 7z" {...line} />,
  system: (
    <>
      <rect x="2" y="3" width="12" height="8" rx="1.4" {...line} />
      <path d="M6 13.6h4" {...line} />
    </>
  ),
  out: <path d="M9.8 4.6V3.4A1.2 1.2 0 0 0 8.6 2.2H3.9a1.2 1.2 0 0 0-1.2 1.2v9.2a1.2 1.2 0 0 0 1.2 1.2h4.7a1.2 1.2 0 0 0 1.2-1.2v-1.2M6.6 8h7M11.4 5.6 13.8 8l-2.4 2.4" {...line} />,
  loop: (
    <>
      <path d="M4.2 11.2A4.4 4.4 0 0 1 3.6 9V8a3 3 0 0 1 3-3h6" {...line} />
      <path d="m10.6 2.8 2.2 2.2-2.2 2.2" {...line} />
      <path d="M11.8 4.8A4.4 4.4 0 0 1 12.4 7v1a3 3 0 0 1-3 3h-6" {...line} />
      <path d="m5.4 13.2-2.2-2.2 2.2-2.2" {...line} />
    </>
  ),
  external: <path d="M6.4 3.4H3.6a1 1 0 0 0-1 1v8a1 1 0 0 0 1 1h8a1 1 0 0 0 1-1V9.6M9.4 2.6h4v4M13.2 2.8 7.4 8.6" {...line} />,
  key: (
    <>
      <circle cx="5" cy="11" r="2.6" {...line} />
      <path d="m7 9 6-6M10.6 5.4l1.8 1.8" {...line} />
    </>
  ),
} as const;

export type IconName = keyof typeof ICONS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      {ICONS[name]}
    </svg>
  );
}

/** The logo: a drum with a rope around it. */
export function Logo() {
  return (
    <svg className="logo" width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" className="logo-ground" />
      <g fill="none" stroke="#fff" strokeWidth="2.6" strokeLinecap="round">
        <path d="M23.2 12.2a8 8 0 1 0 .6 6.2" />
        <path d="M23.9 7.6v4.9h-4.9" />
      </g>
      <circle cx="16" cy="16" r="2.6" fill="#fff" />
    </svg>
  );
}
