// Paths inside a run: `sync[3].fetch`.

export interface PathPart {
  name: string;
  iteration: number | null;
}

/** Splits a path. A name may contain a dot or a bracket only where it is unambiguous; parts that match no other form are names. */
export function pathParts(path: string): PathPart[] {
  if (path === "") return [];
  const parts: PathPart[] = [];
  for (const part of path.split(".")) {
    const match = /^(.*)\[(\d+)\]$/s.exec(part);
    if (match) parts.push({ name: match[1] ?? "", iteration: Number(match[2]) });
    else parts.push({ name: part, iteration: null });
  }
  return parts;
}

export function joinPath(parts: PathPart[]): string {
  return parts.map(({ name, iteration }) => (iteration === null ? name : `${name}[${iteration}]`)).join(".");
}

/** The path without iterations, which is the path in the plan. */
export function planPath(path: string): string {
  return pathParts(path).map((part) => part.name).join(".");
}

/** Returns the innermost loop around a path, and the iteration: `a[1].b[2].c` → `a[1].b`, 2. */
export function enclosingLoop(path: string): { loop: string; iteration: number } | null {
  const parts = pathParts(path);
  for (let at = parts.length - 1; at >= 0; at -= 1) {
    const part = parts[at];
    if (part && part.iteration !== null) {
      return { loop: joinPath([...parts.slice(0, at), { name: part.name, iteration: null }]), iteration: part.iteration };
    }
  }
  return null;
}

export function isWithin(path: string, prefix: string): boolean {
  if (prefix === "" || path === prefix) return true;
  return path.startsWith(prefix) && [".", "["].includes(path[prefix.length] ?? "");
}
