import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// The API server during development: `windlass serve` or `npm run fixture`.
const server = process.env["WINDLASS_URL"] ?? "http://127.0.0.1:7878";

/** Smaller files fit into one packet anyway. */
const MIN_COMPRESSED_BYTES = 1024;

/** Writes `NAME.br` beside every text file of the build; the server sends it to browsers that accept Brotli. */
function brotliFiles(): Plugin {
  let folder = "";
  return {
    name: "windlass-brotli",
    apply: "build",
    configResolved(config) {
      folder = resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
        const path = join(folder, name);
        if (!/\.(js|css|html|svg)$/.test(name) || statSync(path).size < MIN_COMPRESSED_BYTES) continue;
        const text = readFileSync(path);
        const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY, [constants.BROTLI_PARAM_SIZE_HINT]: text.length };
        writeFileSync(`${path}.br`, brotliCompressSync(text, { params }));
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), brotliFiles()],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    sourcemap: false,
    // No inline scripts in the HTML: the content security policy forbids them.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // What every view needs is in a few files: each further one costs the head of a response.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "vendor", test: /node_modules[\\/](react|react-dom|scheduler|@tanstack)[\\/]/ },
            { name: "common", test: /src[\\/](api|components[\\/](common|icons|run-context)|lib[\\/](format|keys|now|router|status|theme))/ },
          ],
        },
      },
    },
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true } } },
  test: { include: ["tests/unit/**/*.test.ts", "tests/unit/**/*.test.tsx"], environment: "node" },
});
