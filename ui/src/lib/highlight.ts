// Colours for sources: enough of JSON and YAML to tell strings, numbers and words apart.

export interface Piece {
  text: string;
  kind: "" | "str" | "num" | "kw" | "com" | "prop";
}

const JSON_PIECE = /("(?:[^"\\]|\\.)*"?)(\s*:)?|(-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|\b(true|false|null)\b/g;
const YAML_LINE = /^(\s*(?:- +)*)((?:"[^"]*"|'[^']*'|[^\s:#'"[\]{},&*!|>%@`][^:#]*?)\s*:)(?=\s|$)/;
const YAML_PIECE = /("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)|((?:^|\s)#.*$)|(?<![\w.-])(-?\d+(?:\.\d+)?)(?![\w.-])|(?<![\w.-])(true|false|null|yes|no)(?![\w.-])/g;

export function language(source: string): "json" | "yaml" {
  return /^\s*[{[]/.test(source) ? "json" : "yaml";
}

export function pieces(line: string, kind: "json" | "yaml"): Piece[] {
  if (line.length > 2000) return [{ text: line, kind: "" }];
  return kind === "json" ? cut(line, JSON_PIECE, (match) => (match[1] !== undefined ? (match[2] !== undefined ? "prop" : "str") : match[3] !== undefined ? "num" : "kw")) : yaml(line);
}

function yaml(line: string): Piece[] {
  const key = YAML_LINE.exec(line);
  const head: Piece[] = key ? [{ text: key[1] ?? "", kind: "" }, { text: key[2] ?? "", kind: "prop" }] : [];
  const rest = key ? line.slice(key[0].length) : line;
  const tail = cut(rest, YAML_PIECE, (match) => (match[1] !== undefined ? "str" : match[2] !== undefined ? "com" : match[3] !== undefined ? "num" : "kw"));
  return [...head, ...tail].filter((piece) => piece.text !== "");
}

function cut(text: string, pattern: RegExp, kindOf: (match: RegExpExecArray) => Piece["kind"]): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    if (match[0] === "") {
      pattern.lastIndex += 1;
      continue;
    }
    if (match.index > from) found.push({ text: text.slice(from, match.index), kind: "" });
    found.push({ text: match[0], kind: kindOf(match) });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), kind: "" });
  return found;
}

/** The pieces with those parts that lie in [from, to) told apart. Counted in characters as people see them. */
export function spotted(line: Piece[], from: number, to: number): (Piece & { spot: boolean })[] {
  const found: (Piece & { spot: boolean })[] = [];
  let at = 0;
  for (const piece of line) {
    const letters = Array.from(piece.text);
    const cuts = [0, clamp(from - at, letters.length), clamp(to - at, letters.length), letters.length];
    for (let one = 0; one < 3; one += 1) {
      const text = letters.slice(cuts[one], cuts[one + 1]).join("");
      if (text) found.push({ text, kind: piece.kind, spot: one === 1 });
    }
    at += letters.length;
  }
  return found;
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(most, value));
}
