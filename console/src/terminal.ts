// One terminal in a page of its own. Styles that the terminal makes carry the nonce of this page's policy.
import "@xterm/xterm/css/xterm.css";
import "./terminal.css";
import { Terminal } from "@xterm/xterm";

const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')!.content;
const create = document.createElement.bind(document);
document.createElement = ((name: string, options?: ElementCreationOptions) => {
  const element = create(name, options);
  if (name.toLowerCase() === "style") element.nonce = nonce;
  return element;
}) as typeof document.createElement;

const palettes = {
  light: { background: "#ffffff", foreground: "#1f2a30", cursor: "#0f766e", selectionBackground: "#bfe3df" },
  dark: { background: "#12191d", foreground: "#e6ecee", cursor: "#5eead4", selectionBackground: "#27454a" },
};
const terminal = new Terminal({ convertEol: true, cursorBlink: false, fontSize: 12.5, scrollback: 20_000, screenReaderMode: true, theme: palettes.light, fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace' });
terminal.open(document.getElementById("terminal")!);

const tell = (m: unknown) => parent.postMessage(m, location.origin);
terminal.onData((data) => tell({ op: "data", data }));

// A terminal answers when a program asks where the cursor is, or what it is. Here several pages may show one process, also long
// after it asked: only what a person types goes to it.
for (const id of [{ final: "n" }, { prefix: "?", final: "n" }, { final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" }]) {
  terminal.parser.registerCsiHandler(id, () => true);
}
terminal.parser.registerDcsHandler({ intermediates: "$", final: "q" }, () => true);
for (const id of [4, 10, 11, 12]) terminal.parser.registerOscHandler(id, () => true);

/** Whether what is typed goes to the process. If it doesn't, keys are the page's, and Tab leaves the frame. */
let types = false;
terminal.attachCustomKeyEventHandler((e) => {
  if (e.ctrlKey && e.key === "F6") {
    if (e.type === "keydown") tell({ op: "leave" });
    e.preventDefault();
    return false;
  }
  if (types) return true;
  if (e.type !== "keydown" || e.key === "Tab") return false;
  // What scrolls and copies stays here.
  if (/^(Arrow|Page|Home|End|Shift|Control|Alt|Meta)/.test(e.key) || (e.ctrlKey && /^[ac]$/i.test(e.key))) return false;
  if (e.ctrlKey || e.metaKey) e.preventDefault();
  const { key, code, ctrlKey, altKey, shiftKey, metaKey } = e;
  tell({ op: "key", key: { key, code, ctrlKey, altKey, shiftKey, metaKey } });
  return false;
});

/** fit sizes the terminal to the frame. */
function fit(): void {
  const cell = (terminal as unknown as { _core: { _renderService: { dimensions: { css: { cell: { width: number; height: number } } } } } })._core._renderService.dimensions.css.cell;
  if (!cell.width) return;
  const cols = Math.max(20, Math.floor((innerWidth - 24) / cell.width));
  const rows = Math.max(4, Math.floor((innerHeight - 12) / cell.height));
  if (cols !== terminal.cols || rows !== terminal.rows) {
    terminal.resize(cols, rows);
    tell({ op: "size", rows, cols });
  }
}

addEventListener("resize", fit);
addEventListener("message", (e) => {
  if (e.source !== parent || e.origin !== location.origin) return;
  const m = e.data as { op: string; bytes?: Uint8Array; dark?: boolean; on?: boolean };
  if (m.op === "write") terminal.write(m.bytes!);
  else if (m.op === "types") {
    types = m.on!;
    if (types) tell({ op: "size", rows: terminal.rows, cols: terminal.cols });
  } else if (m.op === "theme") {
    terminal.options.theme = m.dark ? palettes.dark : palettes.light;
    document.documentElement.dataset.theme = m.dark ? "dark" : "light";
  }
});
fit();
tell({ op: "ready" });
