import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { "curb-client": fileURLToPath(new URL("src/index.ts", import.meta.url)) } },
  test: {
    include: ["test/**/*.test.{ts,tsx}"],
    testTimeout: 30_000,
    restoreMocks: true,
    pool: "forks",
    poolOptions: { forks: { execArgv: ["--expose-gc"], maxForks: 2 } },
  },
});
