// Rules of the web UI that the compiler does not check.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

function files(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

const sources = files(join(root, "src")).map((path): [string, string] => [path, readFileSync(path, "utf8")]);

describe("all data is rendered as text nodes", () => {
  // Concatenated so that this file does not contain the words itself.
  const forbidden = ["dangerously" + "SetInnerHTML", "inner" + "HTML", "outer" + "HTML", "insertAdjacent" + "HTML", "document" + ".write", "ev" + "al(", "new Func" + "tion", "java" + "script:"];
  for (const word of forbidden) {
    it(`nothing uses ${word}`, () => {
      expect(sources.filter(([, text]) => text.includes(word)).map(([path]) => path)).toEqual([]);
    });
  }
});

describe("nothing is loaded from other hosts", () => {
  it("no source file names another host", () => {
    const allowed = /https?:\/\/(www\.w3\.org|127\.0\.0\.1|localhost|api\.example\.com)/g;
    const found = sources.filter(([, text]) => /https?:\/\/[a-z]/.test(text.replace(allowed, "")));
    expect(found.map(([path]) => path)).toEqual([]);
  });
  it("the lock file contains no URLs", () => {
    expect(readFileSync(join(root, "package-lock.json"), "utf8")).not.toContain("://");
  });
  it("versions are exact", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<string, Record<string, string>>;
    for (const version of Object.values({ ...manifest["dependencies"], ...manifest["devDependencies"] })) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});

describe("colours", () => {
  it("have the same names in the light, dark and system themes", () => {
    const text = readFileSync(join(root, "src/styles/tokens.css"), "utf8");
    const names = (block: string) => [...block.matchAll(/(--[a-z-]+):\s*(#[0-9a-f]+)/g)].map((match) => match[1]).sort();
    const blocks = [...text.matchAll(/:root[^{]*\{([^}]*)\}/g)].map((match) => match[1] ?? "");
    expect(blocks).toHaveLength(3);
    const [light = "", dark = "", system = ""] = blocks;
    expect(names(dark)).toEqual(names(light));
    expect(dark.replace(/\s+/g, " ")).toBe(system.replace(/\s+/g, " "));
  });
  it("have enough contrast with their background", () => {
    const text = readFileSync(join(root, "src/styles/tokens.css"), "utf8");
    const blocks = [...text.matchAll(/:root[^{]*\{([^}]*)\}/g)].map((match) => Object.fromEntries([...(match[1] ?? "").matchAll(/--([a-z-]+):\s*(#[0-9a-f]{6})/g)].map((one) => [one[1] ?? "", one[2] ?? ""])));
    for (const tokens of blocks) {
      for (const name of ["text", "muted", "faint", "accent", "good", "bad", "live", "wait", "warn", "calm", "string", "numeral", "word"]) {
        for (const ground of ["ground", "surface", "sunken", "hover"]) expect(contrast(tokens[name] ?? "", tokens[ground] ?? ""), `${name} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
      for (const name of ["good", "bad", "live", "wait", "warn"]) expect(contrast(tokens[name] ?? "", tokens[`${name}-soft`] ?? ""), `${name} on its soft background`).toBeGreaterThanOrEqual(4.5);
      for (const name of ["muted", "faint", "accent"]) {
        for (const ground of ["bad-soft", "warn-soft", "wait-soft", "chosen"]) expect(contrast(tokens[name] ?? "", tokens[ground] ?? ""), `${name} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
    }
  });
});

function contrast(one: string, two: string): number {
  const light = (colour: string) => {
    const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [high = 0, low = 0] = [light(one), light(two)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}
