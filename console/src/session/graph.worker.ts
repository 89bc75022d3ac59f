// Places the nodes of a graph, away from the page's thread.
import dagre from "@dagrejs/dagre";
import type { Edge, Layout, Node } from "./graph";

const width = 168;
const height = 44;

onmessage = (m: MessageEvent<{ id: number; nodes: Node[]; edges: Edge[] }>) => {
  const { id, nodes, edges } = m.data;
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 40, marginx: 12, marginy: 12 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const n of nodes) g.setNode(n.id, { width, height });
  for (const e of edges) g.setEdge(e.from, e.to, {});
  dagre.layout(g);
  const out: Layout = {
    nodes: nodes.map((n) => ({ ...n, x: g.node(n.id).x, y: g.node(n.id).y })),
    edges: edges.map((e) => ({ ...e, points: g.edge(e.from, e.to).points ?? [] })),
    width: g.graph().width ?? 0,
    height: g.graph().height ?? 0,
  };
  postMessage({ id, layout: out });
};
