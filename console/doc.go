// Package console is agentd's web console: an application that runs in a browser and
// uses nothing but the public API, and the handler that hands out its files.
//
// # Contract
//
// [Handler] answers GET below /ui/ with the files of dist, which the program embeds. It knows
// no tokens and no facts. Files under assets have names with the sum of their content
// and may be kept for ever; everything else that isn't a file is an address inside the
// application and gets its page. Each file is compressed when it is first asked for, so that a
// start costs nothing.
//
// The page's Content-Security-Policy allows scripts, styles and requests of the same origin
// alone, nothing inline, and no frame of others around it.
//
// dist is built from src by Vite ("make console") and committed, so that building agentd
// needs no Node.js; a test builds it again and compares. With the build tag noconsole
// nothing is embedded and Handler returns nil.
package console
