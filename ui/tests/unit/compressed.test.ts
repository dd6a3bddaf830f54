import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";

const dist = join(import.meta.dirname, "../../dist");
const files = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((name) => statSync(join(dist, name)).isFile());

describe("the compressed files of the build", () => {
  test.each(files.filter((name) => name.endsWith(".br")))("%s is its original", (name) => {
    const original = readFileSync(join(dist, name.slice(0, -3)));
    expect(brotliDecompressSync(readFileSync(join(dist, name))).equals(original)).toBe(true);
  });

  test("every script and style of some size has one", () => {
    const large = files.filter((name) => /\.(js|css)$/.test(name) && statSync(join(dist, name)).size >= 1024);
    expect(large.filter((name) => !files.includes(`${name}.br`))).toEqual([]);
  });
});
