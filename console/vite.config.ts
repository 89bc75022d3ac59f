import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// icons makes the module virtual:icons of the Lucide icons that src/icons.json lists: as data, since
// the page takes no HTML from strings.
function icons(): Plugin {
  const id = "virtual:icons";
  return {
    name: id,
    resolveId: (source) => (source === id ? "\0" + id : null),
    load(resolved) {
      if (resolved !== "\0" + id) return null;
      const names = JSON.parse(readFileSync(here("src/icons.json"), "utf8")) as string[];
      const all = names.map((name) => {
        const svg = readFileSync(here(`node_modules/lucide-static/icons/${name}.svg`), "utf8");
        const shapes = [...svg.matchAll(/<(path|circle|rect|line|polyline|polygon|ellipse) ([^>]*?)\/?>/g)].map(([, tag, rest]) => [
          tag,
          Object.fromEntries([...rest!.matchAll(/([a-z0-9-]+)="([^"]*)"/g)].map(([, k, v]) => [k, v])),
        ]);
        return [name, shapes];
      });
      return `export default ${JSON.stringify(Object.fromEntries(all))}`;
    },
  };
}

export default defineConfig({
  root: here("."),
  base: "/ui/",
  plugins: [icons(), svelte({ configFile: false })],
  resolve: { alias: { $lib: here("src/lib"), $ui: here("src/ui"), $types: here("../internal/gen/types") } },
  build: {
    target: "es2023",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    rollupOptions: { input: { index: here("index.html"), terminal: here("terminal.html") } },
  },
  worker: { format: "es" },
});
