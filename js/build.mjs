/** Builds dist/: ESM entries and the file for a script tag, which the Python package carries too. */

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { build } from "esbuild";
import { minify } from "terser";

const { env, argv } = process;
const outdir = env.CURB_DIST ?? "dist";
rmSync(outdir, { recursive: true, force: true });
mkdirSync(outdir, { recursive: true });

const common = { bundle: true, minify: true, sourcemap: true, target: "es2022", logLevel: "warning" };

/** Bundled by esbuild, which shortens the properties that end in _, since they are inside only; then by terser, by 5 %. */
async function pack(options) {
  const { outputFiles } = await build({ ...common, outdir, mangleProps: /_$/, write: false, ...options });
  for (const { path, text } of outputFiles.filter(({ path }) => path.endsWith(".js"))) {
    const { code, map } = await minify(text, {
      module: options.format === "esm",
      ecma: 2020,
      compress: {
        passes: 4,
        unsafe_arrows: true,
        unsafe_methods: true,
        pure_getters: true,
        keep_fargs: false,
        inline: 0, // what is inlined here costs those more who minify the bundle again
        reduce_funcs: false,
      },
      sourceMap: { content: outputFiles.find((one) => one.path === `${path}.map`).text, includeSources: true },
    });
    writeFileSync(path, `${code}\n//# sourceMappingURL=${basename(path)}.map\n`);
    writeFileSync(`${path}.map`, map);
  }
}

await pack({
  entryPoints: ["src/index.ts", "src/node.ts", "src/react.ts"],
  format: "esm",
  external: ["livekit-client", "@livekit/*", "react", "curb-client", "node:*"],
});
await pack({ entryPoints: { "curb-client": "src/iife.ts" }, format: "iife", globalName: "CurbClient" });
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
