/** Builds dist/: ESM entries and the file for a script tag, which the Python package carries too. */

import { execFileSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { build } from "esbuild";

const { env, argv } = process;
const outdir = env.CURB_DIST ?? "dist";
rmSync(outdir, { recursive: true, force: true });

const common = { bundle: true, minify: true, sourcemap: true, target: "es2022", outdir, logLevel: "warning" };
await build({
  ...common,
  entryPoints: ["src/index.ts", "src/node.ts", "src/react.ts"],
  format: "esm",
  external: ["livekit-client", "@livekit/*", "react", "curb-client"],
});
await build({ ...common, entryPoints: { "curb-client": "src/iife.ts" }, format: "iife", globalName: "CurbClient" });
if (!argv.includes("--no-types"))
  execFileSync("npx", ["tsc", "-p", "tsconfig.build.json", "--outDir", outdir], { stdio: "inherit" });

// examples/web has no packages of its own: those of this folder are used.
if (argv.includes("--example"))
  await build({
    ...common,
    outdir: env.CURB_EXAMPLE ?? "../examples/web/dist",
    entryPoints: { example: "../examples/web/main.tsx" },
    format: "esm",
    jsx: "automatic",
    alias: { "curb-client": "./src/index.ts", "curb-client/react": "./src/react.ts" },
    nodePaths: ["node_modules"],
    define: { "process.env.NODE_ENV": JSON.stringify(env.NODE_ENV ?? "production") },
  });

if (argv.includes("--static")) {
  for (const file of ["curb-client.js", "curb-client.js.map"])
    copyFileSync(`${outdir}/${file}`, `../curb_client/static/${file}`);
}
