import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { defineConfig } from "vitest/config";

const REACT_18 = "node_modules/.cache/react-18.test.mjs";

// The hooks' tests once more with React 18: bundled, since what is in node_modules would take the other one.
await build({
  entryPoints: ["test/react.test.tsx"],
  outfile: REACT_18,
  bundle: true,
  format: "esm",
  platform: "node",
  jsx: "automatic",
  alias: { react: "react-18", "react-dom": "react-dom-18", "curb-client": "./src/index.ts" },
  external: ["vitest", "livekit-client"],
  define: { "process.env.NODE_ENV": '"test"', REACT: '"18"' },
  banner: {
    js: `// @vitest-environment happy-dom
import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`,
  },
  logLevel: "warning",
});

export default defineConfig({
  resolve: { alias: { "curb-client": fileURLToPath(new URL("src/index.ts", import.meta.url)) } },
  define: { REACT: '"19"' },
  test: {
    include: ["test/**/*.test.{ts,tsx}", REACT_18],
    exclude: [],
    testTimeout: 30_000,
    restoreMocks: true,
    pool: "forks",
    poolOptions: { forks: { execArgv: ["--expose-gc"], maxForks: 2 } },
  },
});
