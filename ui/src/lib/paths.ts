// Addresses inside a run: `sync[3].fetch`, or `sync.3.fetch` where a dialect writes turns with dots.

export interface PathPart {
  name: string;
  turn: number | null;
  /** Its turn is a part by itself. */
  dotted?: boolean;
}

/** A name may hold a dot or a bracket only where it cannot be mistaken; what does not fit is a name. */
export function pathParts(path: string): PathPart[] {
  if (path === "") return [];
  const parts: PathPart[] = [];
  for (const part of path.split(".")) {
    const match = /^(.*)\[(\d+)\]$/s.exec(part);
    const before = parts.at(-1);
    if (match) parts.push({ name: match[1] ?? "", turn: Number(match[2]) });
    else if (/^\d+$/.test(part) && before && before.turn === null) Object.assign(before, { turn: Number(part), dotted: true });
    else parts.push({ name: part, turn: null });
  }
  return parts;
}

export function joinPath(parts: PathPart[]): string {
  return parts.map(({ name, turn, dotted }) => (turn === null ? name : dotted ? `${name}.${turn}` : `${name}[${turn}]`)).join(".");
}

/** The same address without its turns: the place in the plan. */
export function placeOf(path: string): string {
  return pathParts(path).map((part) => part.name).join(".");
}

/** `a[1].b[2].c` → `a[1].b`, the loop that it is a turn of. */
export function loopOf(path: string): { loop: string; turn: number } | null {
  const parts = pathParts(path);
  for (let at = parts.length - 1; at >= 0; at -= 1) {
    const part = parts[at];
    if (part && part.turn !== null) {
      return { loop: joinPath([...parts.slice(0, at), { name: part.name, turn: null }]), turn: part.turn };
    }
  }
  return null;
}

export function within(path: string, prefix: string): boolean {
  if (prefix === "" || path === prefix) return true;
  return path.startsWith(prefix) && [".", "["].includes(path[prefix.length] ?? "");
}
