// Package scripted is a deterministic agent inside the worker's own process, for
// tests and the demo. It does what a script says.
//
// A script is a list of rules, JSON objects one after the other; lines that
// begin with # are comments. The first rule whose selectors all match carries
// out the run; each selector may be left out:
//
//	# the reviewer's login expires once, then it asks for a change
//	{"role":"reviewer","times":1,"do":[{"error":"auth","text":"token expired"}]}
//	{"role":"reviewer","turn":2,"do":[
//	  {"progress":"text","text":"reading the diff"},
//	  {"item":"t1","kind":"tool","state":"open","title":"go test"},
//	  {"wait":"500ms"},
//	  {"item":"t1","kind":"tool","state":"completed"},
//	  {"result":"changes","text":"A test is missing."}]}
//
// Selectors: role, intent, service, thread, turn and attempt (numbers), and times,
// which lets the rule match that often only.
//
// Steps:
//
//	{"accept":true}                                 the prompt is accepted; the other words of a run imply it
//	{"progress":"text"|"tools","text":"…"}
//	{"item":"ID","kind":"tool","state":"open","title":"…","child":"THREAD"}
//	{"wait":"2s"}                                   or until the context ends
//	{"file":"PATH"}                                 waits until the file exists; relative to the workspace
//	{"answer":"ID"}                                 waits for a person's answer to the request ID, and closes it
//	{"write":"PATH","text":"…"}                     writes a file into the workspace
//	{"result":"approve","text":"…","session":"…"}   the end; "" for a result without an outcome
//	{"error":"auth","text":"…","retry_after":"30s","resets_in":"1h"}  the end
//	{"panic":"…"}                                   the end, by a panic in the worker
//	{"hang":true}                                   silent until the context ends
//	{"deaf":true}                                   from here on the end of the context is not heard
//
// A script that ends without an end, and a run that no rule matches, accept and
// succeed: the owner says done, the reviewer approve, the arbiter proceed.
//
// Interrupt and steer are taken; a steered text is said again as progress. Start
// and silence are bounded as for every agent.
package scripted
