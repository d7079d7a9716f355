// Package chaos is a campaign of faults against real workers, a real Redis and
// real agent processes, chosen by a seed: a seed makes the same faults in the same
// order again (not at the same microsecond).
//
// While many paired tasks are at work, workers are killed, with and without their
// guards, stopped, and cut from Redis; Redis is restarted, killed, paused and made to
// forget its scripts; deliveries are doubled, deleted and archived; lease entries of
// asynq and of the store are deleted; writes of runs that are over arrive late; people
// cancel, restart and hand off. Then all faults stop, and everything that was accepted
// must come to its end. In a long campaign two of the five workers have a clock that is
// five minutes off.
//
// The agents keep a ledger of everything they do, in one file. It is the judge: no
// line of a run may follow on the first line of a run with a higher fence in the
// same thread, so no two agents lived in a thread, and nothing had an effect after
// its fence was lost.
//
//	go test ./integration/chaos                          20 seconds of faults, a minute in all
//	make chaos SEED=7 MINUTES=60                         a long one
package chaos
