// Package web is what a person sees of the queue in a browser: the board with its
// threads, turns and dead letters, asynqmon, metrics and health. It reads the
// store; what it changes goes through package commands, and only with Config.Admin.
//
// Pages are rendered on the server from templates in the binary and need no
// request to anybody else. They stay current by server-sent events: one reader of
// the shards' streams a process tells all browsers that something moved, and a
// browser asks for its page again.
//
// # Who may look
//
// Without a token the handler only answers requests to a loopback name, so that a
// foreign page can't reach it by a name of its own that leads here. With a token
// every page wants it, as a bearer header or by a cookie that the login sets; only
// /livez and /readyz answer anybody. A change also needs a page of the same origin
// and that page's form token.
package web
