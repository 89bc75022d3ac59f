// The pages. A page is one component in pages/ and one line here: the line puts it into the navigation,
// the palette and the tests that crawl all pages.
import type { Component } from "svelte";
import type { CommandName } from "$types/commands";
import Fleet from "./pages/Fleet.svelte";

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
  { path: "/", title: "Fleet", icon: "layout-dashboard", group: "", keys: "g f", load: async () => ({ default: Fleet }) },
  { path: "/inbox", title: "Inbox", icon: "inbox", group: "", keys: "g i", load: () => import("./pages/Inbox.svelte") },
  { path: "/sessions", title: "Sessions", icon: "message-square", group: "", keys: "g s", load: () => import("./pages/Sessions.svelte") },
  { path: "/s/:id", title: "Session", icon: "message-square", load: () => import("./pages/Session.svelte") },
  { path: "/tasks", title: "Tasks", icon: "list-checks", group: "Work", keys: "g t", load: () => import("./pages/Tasks.svelte") },
  { path: "/jobs", title: "Jobs", icon: "layers", group: "Work", keys: "g j", load: () => import("./pages/Jobs.svelte") },
  { path: "/schedules", title: "Schedules", icon: "calendar-clock", group: "Work", keys: "g c", load: () => import("./pages/Schedules.svelte") },
  { path: "/usage", title: "Usage", icon: "chart-column", group: "Insight", keys: "g u", load: () => import("./pages/Usage.svelte") },
  { path: "/compare", title: "Compare", icon: "columns-2", group: "Insight", load: () => import("./pages/Compare.svelte") },
  { path: "/replay/:id", title: "Replay", icon: "repeat", load: () => import("./pages/Replay.svelte") },
  { path: "/bench", title: "Benchmarks", icon: "flask-conical", group: "Insight", keys: "g b", load: () => import("./pages/Bench.svelte") },
  { path: "/evidence", title: "Evidence", icon: "badge-check", group: "Govern", keys: "g e", load: () => import("./pages/Evidence.svelte") },
  { path: "/policy", title: "Policy", icon: "shield", group: "Govern", keys: "g p", load: () => import("./pages/Policy.svelte") },
  { path: "/peers", title: "Peers", icon: "network", group: "Govern", load: () => import("./pages/Peers.svelte") },
  { path: "/admin", title: "Administration", icon: "settings", group: "Govern", keys: "g a", needs: "list_tokens", load: () => import("./pages/Admin.svelte") },
];
