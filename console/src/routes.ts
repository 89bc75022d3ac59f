// The pages. A page is one component in pages/ and one line here: the line puts it into the navigation,
// the palette and the tests that crawl all pages.
import type { Component } from "svelte";
import type { CommandName } from "$types/commands";

export interface Route {
  /** Such as /tasks or /s/:id; variables become the component's properties. */
  path: string;
  title: string;
  /** A Lucide icon that icons.json lists. */
  icon: string;
  /** The heading that it stands under in the navigation; without one it isn't there. */
  group?: "" | "Work" | "Insight" | "Govern";
  /** What is pressed to go there. */
  keys?: string;
  /** The command without which there is nothing to see. */
  needs?: CommandName;
  load: () => Promise<{ default: Component<any> }>;
}

export const routes: Route[] = [
  { path: "/", title: "Fleet", icon: "layout-dashboard", group: "", keys: "g f", load: () => import("./pages/Fleet.svelte") },
  { path: "/inbox", title: "Inbox", icon: "inbox", group: "", keys: "g i", load: () => import("./pages/Inbox.svelte") },
  { path: "/sessions", title: "Sessions", icon: "message-square", group: "", keys: "g s", load: () => import("./pages/Sessions.svelte") },
  { path: "/s/:id", title: "Session", icon: "message-square", load: () => import("./pages/Session.svelte") },
];
