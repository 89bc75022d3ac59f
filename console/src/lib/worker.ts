// The worker that all tabs share, or, in a browser without shared workers, a tab's own.
import { Hub } from "./hub";
import type { ToWorker } from "./wire";

const hub = new Hub();
const scope = self as unknown as { onconnect?: (e: MessageEvent) => void; onmessage?: (e: MessageEvent) => void; postMessage(m: unknown): void };

if ("SharedWorkerGlobalScope" in self) {
  scope.onconnect = (e) => {
    const port = e.ports[0]!;
    const told = hub.join((m) => port.postMessage(m));
    port.onmessage = (m) => told(m.data as ToWorker);
  };
} else {
  const told = hub.join((m) => scope.postMessage(m));
  scope.onmessage = (m) => told(m.data as ToWorker);
}
