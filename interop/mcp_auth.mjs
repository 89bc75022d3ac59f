// Adds agentd's token to the requests of a program that can't be given one: the
// conformance suite. Loaded with --import; the token is in AGENTD_TOKEN.
import { subscribe } from "node:diagnostics_channel";

const value = `Bearer ${process.env.AGENTD_TOKEN}`;
subscribe("undici:request:create", ({ request }) => request.addHeader("authorization", value));
subscribe("http.client.request.created", ({ request }) => request.setHeader("authorization", value));
