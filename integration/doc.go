// Package integration tells the promises of rota as stories: real worker
// processes, a real redis-server, a real git repository, and agents that do what
// a test says (see puppet). Nothing here is imported by anybody.
package integration
