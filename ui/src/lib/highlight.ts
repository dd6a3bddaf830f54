// A minimal tokenizer for syntax highlighting: strings, numbers and keywords of JSON and YAML.

export interface SourceToken {
  text: string;
  kind: "" | "str" | "num" | "kw" | "com" | "prop";
}

const JSON_TOKEN = /("(?:[^"\\]|\\.)*"?)(\s*:)?|(-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|\b(true|false|null)\b/g;
const YAML_KEY = /^(\s*(?:- +)*)((?:"[^"]*"|'[^']*'|[^\s:#'"[\]{},&*!|>%@`][^:#]*?)\s*:)(?=\s|$)/;
const YAML_TOKEN = /("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)|((?:^|\s)#.*$)|(?<![\w.-])(-?\d+(?:\.\d+)?)(?![\w.-])|(?<![\w.-])(true|false|null|yes|no)(?![\w.-])/g;

export function language(source: string): "json" | "yaml" {
  return /^\s*[{[]/.test(source) ? "json" : "yaml";
}

export function tokenize(line: string, kind: "json" | "yaml"): SourceToken[] {
  if (line.length > 2000) return [{ text: line, kind: "" }];
  return kind === "json" ? split(line, JSON_TOKEN, (match) => (match[1] !== undefined ? (match[2] !== undefined ? "prop" : "str") : match[3] !== undefined ? "num" : "kw")) : yaml(line);
}

function yaml(line: string): SourceToken[] {
  const key = YAML_KEY.exec(line);
  const head: SourceToken[] = key ? [{ text: key[1] ?? "", kind: "" }, { text: key[2] ?? "", kind: "prop" }] : [];
  const rest = key ? line.slice(key[0].length) : line;
  const tail = split(rest, YAML_TOKEN, (match) => (match[1] !== undefined ? "str" : match[2] !== undefined ? "com" : match[3] !== undefined ? "num" : "kw"));
  return [...head, ...tail].filter((token) => token.text !== "");
}

function split(text: string, pattern: RegExp, kindOf: (match: RegExpExecArray) => SourceToken["kind"]): SourceToken[] {
  const found: SourceToken[] = [];
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

/** Splits tokens at the range [from, to) and marks those inside it. Positions count code points. */
export function markRange(line: SourceToken[], from: number, to: number): (SourceToken & { marked: boolean })[] {
  const found: (SourceToken & { marked: boolean })[] = [];
  let at = 0;
  for (const token of line) {
    const letters = Array.from(token.text);
    const cuts = [0, clamp(from - at, letters.length), clamp(to - at, letters.length), letters.length];
    for (let one = 0; one < 3; one += 1) {
      const text = letters.slice(cuts[one], cuts[one + 1]).join("");
      if (text) found.push({ text, kind: token.kind, marked: one === 1 });
    }
    at += letters.length;
  }
  return found;
}

function clamp(value: number, max: number): number {
  return Math.max(0, Math.min(max, value));
}
