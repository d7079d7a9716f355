// Package metrics holds the names of all metrics, on a registry that is passed
// in. An id is never a label; every label's values come from fixed lists or from
// the configuration.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rota/turns"
)

// Set is what one process counts itself. What Redis says at the moment of asking is
// in Queues.
type Set struct {
	moves       *prometheus.CounterVec
	claims      *prometheus.CounterVec
	refused     *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	handoffs    *prometheus.CounterVec
	failures    *prometheus.CounterVec
	deadLetters *prometheus.CounterVec
	hooks       *prometheus.CounterVec
	findings    *prometheus.CounterVec
	passErrors  prometheus.Counter
	amnesties   prometheus.Counter
	violations  *prometheus.CounterVec
	queueTime   *prometheus.HistogramVec
	runTime     *prometheus.HistogramVec
	runs        *prometheus.GaugeVec
	unserved    *prometheus.GaugeVec
}

// New registers all metrics.
func New(reg prometheus.Registerer) *Set {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rota", Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rota", Name: name, Help: help}, labels)
		reg.MustRegister(g)
		return g
	}
	seconds := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rota", Name: name, Help: help, Buckets: buckets}, labels)
		reg.MustRegister(h)
		return h
	}
	return &Set{
		moves:       counter("moves_total", "Moves of attempts made by this process.", "verb", "role", "service", "state"),
		claims:      counter("claims_total", "Answers to claims.", "service", "answer"),
		refused:     counter("messages_refused_total", "Messages that contradicted the stored turn; nothing was executed.", "service", "cause"),
		rejected:    counter("fence_rejections_total", "Writes refused by a fence or a guard.", "script", "answer"),
		attempts:    counter("attempts_opened_total", "Attempts opened, by cause.", "cause", "service"),
		handoffs:    counter("handoffs_total", "Handoffs between services.", "from", "to", "class"),
		failures:    counter("run_failures_total", "Runs that failed, by class.", "service", "class"),
		deadLetters: counter("dead_letters_total", "Dead letters, by what was done.", "service", "type", "done"),
		hooks:       counter("hook_failures_total", "Failures of the archived-task hook; the net finishes its work.", "service"),
		findings:    counter("reconciler_findings_total", "What the relay and the reconciler found and mended.", "finding"),
		passErrors:  counter("reconciler_errors_total", "Passes that failed.").WithLabelValues(),
		amnesties:   counter("amnesties_total", "Times that Redis was found to have been away.").WithLabelValues(),
		violations:  counter("invariant_violations_total", "Violated invariants found by verify.", "invariant"),
		queueTime:   seconds("queue_seconds", "From an attempt's opening to its claim.", []float64{.002, .005, .01, .05, .1, .5, 1, 5, 30, 120, 600, 3600}, "service"),
		runTime:     seconds("run_seconds", "From the claim to the end of a run.", []float64{.1, .5, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200}, "service", "role"),
		runs:        gauge("runs", "Runs that this worker carries out now.", "service"),
		unserved:    gauge("service_unserved", "1 when attempts wait for a service that no worker serves.", "service"),
	}
}

// Move counts a move.
func (s *Set) Move(v turns.Verb, role turns.Role, service string, to turns.State) {
	s.moves.WithLabelValues(string(v), string(role), service, string(to)).Inc()
}

// Claim counts an answer to a claim.
func (s *Set) Claim(service, answer string) { s.claims.WithLabelValues(service, answer).Inc() }

// Refused counts a message that contradicted the stored turn.
func (s *Set) Refused(service, cause string) { s.refused.WithLabelValues(service, cause).Inc() }

// Rejected counts a write that a fence or a guard refused.
func (s *Set) Rejected(script, answer string) { s.rejected.WithLabelValues(script, answer).Inc() }

// Opened counts an attempt by its cause.
func (s *Set) Opened(c turns.Cause, service string) {
	s.attempts.WithLabelValues(string(c), service).Inc()
}

// Handoff counts a handoff.
func (s *Set) Handoff(from, to string, c turns.Class) {
	s.handoffs.WithLabelValues(from, to, string(c)).Inc()
}

// Failure counts a failed run.
func (s *Set) Failure(service string, c turns.Class) {
	s.failures.WithLabelValues(service, string(c)).Inc()
}

// DeadLetter counts a dead letter by what was done about it.
func (s *Set) DeadLetter(service, taskType, done string) {
	s.deadLetters.WithLabelValues(service, taskType, done).Inc()
}

// HookFailed counts a failure of the archived-task hook.
func (s *Set) HookFailed(service string) { s.hooks.WithLabelValues(service).Inc() }

// Finding counts what a pass found.
func (s *Set) Finding(kind string, n int) { s.findings.WithLabelValues(kind).Add(float64(n)) }

// PassFailed counts a pass that failed.
func (s *Set) PassFailed() { s.passErrors.Inc() }

// Amnesty counts an amnesty.
func (s *Set) Amnesty() { s.amnesties.Inc() }

// Violation counts a violated invariant.
func (s *Set) Violation(invariant string) { s.violations.WithLabelValues(invariant).Inc() }

// Queued observes how long an attempt waited for its claim.
func (s *Set) Queued(service string, d time.Duration) {
	s.queueTime.WithLabelValues(service).Observe(d.Seconds())
}

// Ran observes how long a run took.
func (s *Set) Ran(service string, role turns.Role, d time.Duration) {
	s.runTime.WithLabelValues(service, string(role)).Observe(d.Seconds())
}

// Running adds to the number of runs.
func (s *Set) Running(service string, delta int) {
	s.runs.WithLabelValues(service).Add(float64(delta))
}

// Unserved says whether attempts wait for a service that nobody serves.
func (s *Set) Unserved(service string, yes bool) {
	v := 0.0
	if yes {
		v = 1
	}
	s.unserved.WithLabelValues(service).Set(v)
}
