// Light or dark: what the system says, until the user says otherwise, for this tab. Nothing is stored.
class Theme {
  chosen = $state<"light" | "dark" | null>(null);
  #system = $state(matchMedia("(prefers-color-scheme: dark)").matches);

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => (this.#system = e.matches));
  }

  get name(): "light" | "dark" {
    return this.chosen ?? (this.#system ? "dark" : "light");
  }

  toggle(): void {
    this.chosen = this.name === "dark" ? "light" : "dark";
  }
}

export const theme = new Theme();
