// What the palette offers beside pages: a page adds what can be done on it while it lives.
import { untrack } from "svelte";

export interface PaletteAction {
  icon: string;
  text: string;
  keys?: string;
  run: () => void;
  when?: () => boolean;
}

const added: PaletteAction[] = [];
let version = $state(0);

export function paletteActions(): PaletteAction[] {
  void version;
  return added.filter((a) => !a.when || a.when());
}

/** useActions adds actions to the palette for as long as the component lives. */
export function useActions(...actions: PaletteAction[]): void {
  $effect(() => {
    added.push(...actions);
    untrack(() => version++);
    return () => {
      for (const a of actions) added.splice(added.indexOf(a), 1);
      untrack(() => version++);
    };
  });
}
