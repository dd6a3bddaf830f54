// Addresses inside a run: `sync[3].fetch`.

export interface PathPart {
  name: string;
  turn: number | null;
}

/** A name may hold a dot or a bracket only where it cannot be mistaken; what does not fit is a name. */
export function pathParts(path: string): PathPart[] {
  if (path === "") return [];
  return path.split(".").map((part) => {
    const match = /^(.*)\[(\d+)\]$/s.exec(part);
    return match ? { name: match[1] ?? "", turn: Number(match[2]) } : { name: part, turn: null };
  });
}

export function joinPath(parts: PathPart[]): string {
  return parts.map((part) => (part.turn === null ? part.name : `${part.name}[${part.turn}]`)).join(".");
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
