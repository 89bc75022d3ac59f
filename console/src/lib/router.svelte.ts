// A small router over the history: paths below /ui, one variable per segment, filters in the query.

/** base is where the console is served. */
export const base = "/ui";

class Router {
  #url = $state.raw(new URL(location.href));

  constructor() {
    addEventListener("popstate", () => (this.#url = new URL(location.href)));
  }

  /** The path without the base, such as /s/sess_1. */
  get path(): string {
    return this.#url.pathname.slice(base.length) || "/";
  }

  /** The query. */
  get query(): URLSearchParams {
    return this.#url.searchParams;
  }

  get hash(): string {
    return this.#url.hash.slice(1);
  }

  /** go opens an address of the console. */
  go(to: string, replace = false): void {
    const url = new URL(base + to, location.origin);
    if (url.href === location.href) return;
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    this.#url = url;
  }

  /** set changes parameters of the query in place; null, "" and false remove one. */
  set(changes: Record<string, string | number | boolean | null | undefined>, replace = true): void {
    const q = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "" || value === false) q.delete(name);
      else q.set(name, String(value));
    }
    const text = q.toString();
    this.go(this.path + (text ? `?${text}` : ""), replace);
  }
}

export const router = new Router();

/** match returns the variables of a pattern such as /s/:id that a path fits, or null. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const want = pattern.split("/");
  const have = path.replace(/\/$/, "").split("/");
  if (pattern === "/") return path === "/" || path === "" ? {} : null;
  if (want.length !== have.length) return null;
  const out: Record<string, string> = {};
  for (let i = 0; i < want.length; i++) {
    const w = want[i]!;
    if (w.startsWith(":")) {
      try {
        out[w.slice(1)] = decodeURIComponent(have[i]!);
      } catch {
        return null;
      }
    } else if (w !== have[i]) return null;
  }
  return out;
}

/** href is the address of a path, for links. */
export function href(to: string): string {
  return base + to;
}

/** followLinks has clicks on links of the console change the page without loading it again. */
export function followLinks(): void {
  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const a = (e.target as Element).closest?.("a");
    if (!a || a.target || a.hasAttribute("download") || a.origin !== location.origin || !a.pathname.startsWith(base)) return;
    if (a.hash && a.pathname === location.pathname && a.search === location.search) return;
    e.preventDefault();
    router.go(a.pathname.slice(base.length) + a.search + a.hash);
  });
}
