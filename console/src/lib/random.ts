/** randomId is an id that nothing else has. The browser makes UUIDs itself only over https or on this machine. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
