// Builds the page into ../ebb_dashboard/static; with --check, compares what is there with what would be built.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "ebb_dashboard", "static");
const sources = readdirSync(join(here, "src")).sort();

/** SHA-256 of the sources and of the versions they are built with; dashboard/tests/test_page.py computes it too. */
const hash = createHash("sha256");
for (const path of [...sources.map((name) => `src/${name}`), "build.mjs", "package-lock.json"]) {
  hash.update(`${path}\n`).update(readFileSync(join(here, path)));
}
const banner = `/* Built of dashboard/page by \`make page\`; sources ${hash.digest("hex")}; contains uPlot, see uPlot-LICENSE.txt. */`;

const made = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  bundle: true,
  minify: true,
  write: false,
  target: "es2022",
  legalComments: "none",
  outfile: "page.js",
  banner: { js: banner, css: banner },
});
const files = new Map(made.outputFiles.map((file) => [file.path.endsWith(".css") ? "page.css" : "page.js", file.text]));
files.set("uPlot-LICENSE.txt", readFileSync(join(here, "node_modules", "uplot", "LICENSE"), "utf8"));
files.set("index.html", readFileSync(join(here, "src", "index.html"), "utf8"));

let different = 0;
for (const [name, text] of files) {
  const path = join(out, name);
  if (!process.argv.includes("--check")) writeFileSync(path, text);
  else if (readFileSync(path, "utf8") !== text) {
    console.error(`${path} is not what dashboard/page builds: make page`);
    different += 1;
  }
}
process.exit(different > 0 ? 1 : 0);
