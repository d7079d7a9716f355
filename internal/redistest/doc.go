// Package redistest gives tests a Redis of their own, and faults by name.
//
//   - Mini is miniredis in this process, Start a real redis-server, Each runs one
//     test body on both, as subtests "miniredis" and "redis".
//   - StartSentinel and StartCluster start whole deployments.
//   - LostReply, CutBefore and CutAfter are hooks for a client; Proxy stands
//     between a server and any program; Counter counts what a client asks.
//   - WithKeyCheck makes a script fail when it touches a key that it did not
//     declare.
//
// Every server listens on the loopback only, on a free port, with its files in
// a folder of the test, and ends with the test, also when the test process is
// killed. Without redis-server on the PATH a test that needs it is skipped, or
// fails when ROTA_REQUIRE_REDIS is 1, which "make test" sets; "make quick" sets
// ROTA_MINIREDIS_ONLY, with which all of them are skipped.
package redistest
