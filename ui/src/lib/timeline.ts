// Zooming, panning and axis ticks of the timeline.

export interface Span {
  from: number;
  to: number;
}

export function zoomed(span: Span, whole: Span, factor: number, around: number): Span {
  const length = Math.max(5, Math.min((whole.to - whole.from) * 1.02, (span.to - span.from) * factor));
  const share = (around - span.from) / Math.max(1e-9, span.to - span.from);
  return clamped({ from: around - share * length, to: around + (1 - share) * length }, whole);
}

export function panned(span: Span, whole: Span, by: number): Span {
  return clamped({ from: span.from + by, to: span.to + by }, whole);
}

function clamped(span: Span, whole: Span): Span {
  const length = span.to - span.from;
  if (length >= whole.to - whole.from) return { from: whole.from, to: whole.from + length };
  if (span.from < whole.from) return { from: whole.from, to: whole.from + length };
  if (span.to > whole.to) return { from: whole.to - length, to: whole.to };
  return span;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 144e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];

/** Axis ticks at round offsets from the run's start, `max` of them if possible. */
export function ticks(span: Span, start: number, max: number): { at: number; after: number }[] {
  const length = span.to - span.from;
  const step = STEPS.find((one) => length / one <= max) ?? length / max;
  const first = Math.ceil((span.from - start) / step) * step;
  const found: { at: number; after: number }[] = [];
  for (let after = first; start + after <= span.to && found.length < 100; after += step) found.push({ at: start + after, after });
  return found;
}
