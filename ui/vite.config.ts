import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The API server during development: `windlass serve` or `npm run fixture`.
const server = process.env["WINDLASS_URL"] ?? "http://127.0.0.1:7878";

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    sourcemap: false,
    // No inline scripts in the HTML: the content security policy forbids them.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true } } },
  test: { include: ["tests/unit/**/*.test.ts", "tests/unit/**/*.test.tsx"], environment: "node" },
});
