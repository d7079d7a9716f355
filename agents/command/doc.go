// Package command runs any executable as an agent.
//
// The program is started in the workspace with ROTA_THREAD, ROTA_TURN,
// ROTA_ATTEMPT, ROTA_ROLE, ROTA_INTENT, ROTA_FENCE and ROTA_WORKSPACE in its
// environment and one JSON object on standard input, which is then closed (see
// Input). Its standard output is plain text or JSON lines. The first line that is
// not blank decides: an object with a known type makes it JSON lines.
//
// Plain text is the final message; exit status 0 makes it a result. The prompt
// counts as accepted when it was handed over and the program lives a second
// later, or with the first line that is not blank, or with exit status 0.
//
// JSON lines are
//
//	{"type":"accepted"}
//	{"type":"progress","progress":"text"|"tools","text":"…"}
//	{"type":"item","id":"i1","kind":"tool","state":"open"|"completed"|"failed","title":"…","child":"thread~2"}
//	{"type":"result","text":"…","outcome":"done"|"approve"|…,"session":"…","usage":{…}}
//	{"type":"error","class":"auth"|"quota"|…,"message":"…","retry_after":"30s","resets_at":"RFC 3339"}
//
// An item's kind is agent_turn, tool, sub_agent, message, request or error.
//
// Lines of other types and lines that are no JSON objects are skipped; a known
// line with a wrong value is bad_output and ends the run. progress, item and
// result accept the prompt too. A result counts with exit status 0 only, the last
// one if there are several; an error is the run's failure whatever the status,
// and also when a result was printed. Anything else is crash. Status 0 with
// nothing printed, or with a result of neither text nor outcome, is empty.
package command
