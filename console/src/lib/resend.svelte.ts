// A command that is sent again because its reply got lost is carried out once.
import type { CommandName, Commands } from "$types/commands";
import { call, Problem } from "./api";
import { randomId } from "./random";

/** unanswered says that an error leaves open whether the command was carried out. */
function unanswered(err: unknown): boolean {
  return !(err instanceof Problem) || err.status === 0 || err.status >= 500;
}

/**
 * Resend sends a command. While its reply is not known, the same input is sent with the same parameters and the same
 * idempotency key; another input, or a reply, makes it another command.
 */
export class Resend<C extends CommandName> {
  #sent = $state.raw<{ input: string; params: Commands[C]["params"] } | null>(null);

  constructor(readonly command: C) {}

  /** open says whether it is not known what became of this input. */
  open(input: string): boolean {
    return this.#sent?.input === input;
  }

  async send(input: string, params: Commands[C]["params"]): Promise<Commands[C]["result"]> {
    const sent = this.#sent?.input === input ? this.#sent : { input, params: { ...params, idempotencyKey: randomId() } };
    this.#sent = sent;
    /** answered forgets it, unless another input was sent meanwhile. */
    const answered = () => this.#sent === sent && (this.#sent = null);
    try {
      const result = await call(this.command, sent.params);
      answered();
      return result;
    } catch (err) {
      if (!unanswered(err)) answered();
      throw err;
    }
  }
}
