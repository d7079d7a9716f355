package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// Claim asks for an attempt on behalf of a message. Role, Intent and Stamp are
// the message's, and must be those of the stored turn, whose limits bound the run.
type Claim struct {
	Attempt string
	Service string // that claims
	Role    turns.Role
	Intent  turns.Intent
	Stamp   string
	Run     string // random, chosen by the caller: a repeat is answered "already"
	Worker  string
	Agent   string
}

// Answer is what a claim is answered.
type Answer string

// The answers to a claim. All but the first two change nothing in the turn.
const (
	Claimed      Answer = "claimed"
	Already      Answer = "already"       // by the same run id
	Busy         Answer = "busy"          // another run holds it
	Held         Answer = "held"          // an agent may be alive in the thread
	Superseded   Answer = "superseded"    // the turn has gone on with another attempt
	Final        Answer = "final"         // the turn has ended
	WrongService Answer = "wrong_service" // it belongs to another service
	Mismatch     Answer = "mismatch"      // role, intent or stamp contradict the stored turn, or that contradicts itself
	Unknown      Answer = "unknown"       // no such attempt
)

// Run is the proof of a run: who holds which attempt. It stands in every write.
type Run struct {
	Thread  string
	Turn    string
	Attempt string
	ID      string
	Fence   int64
}

// ClaimAnswer is the answer to a claim with what belongs to it.
type ClaimAnswer struct {
	Answer     Answer
	Run        Run       // claimed and already
	Deliveries int       // claims of this attempt so far, this one included
	Deadline   time.Time // when the run must have ended, by Redis' clock
	At         time.Time // Redis' time of the answer
	HeldUntil  time.Time // held
	Detail     string    // for the log: who is busy, which service, what the store says
}

// Claim gives a queued attempt to a run, with a new fence, and takes the thread's
// hold. An error means that nothing is known: repeat it with the same run id.
// What along adds is asked in the same round trip, whatever the answer.
func (s *Store) Claim(ctx context.Context, c Claim, along ...func(redis.Pipeliner)) (ClaimAnswer, error) {
	turn, _, err := turns.ParseAttempt(c.Attempt)
	if err != nil {
		return ClaimAnswer{}, err
	}
	thread := turns.ThreadOf(turn)
	k := s.of(turn)
	a, err := s.runAlong(ctx, along, scriptClaim,
		[]string{k.attempt(c.Attempt), k.turn(turn), k.thread(thread), k.outbox(), k.leases(), k.log(turn), k.stream(), k.clock()},
		c.Attempt, turn, c.Service, string(c.Role), string(c.Intent), c.Stamp, c.Run, encodeLimits(turns.DefaultLimits),
		c.Worker, c.Agent, origins(turns.VerbClaim))
	if err != nil {
		return ClaimAnswer{}, err
	}
	answer := ClaimAnswer{Answer: Answer(a.word), Detail: strings.Join(a.rest, " ")}
	switch answer.Answer {
	case Claimed, Already:
		answer.Run = Run{Thread: thread, Turn: turn, Attempt: c.Attempt, ID: c.Run, Fence: number64(a.at(0))}
		answer.Deliveries = number(a.at(1))
		answer.Deadline, answer.At = msTime(a.at(2)), msTime(a.at(3))
	case Held:
		answer.HeldUntil = msTime(a.at(0))
	case Busy, Superseded, Final, WrongService, Mismatch, Unknown:
	default:
		return ClaimAnswer{}, unexpected(scriptClaim, a)
	}
	return answer, nil
}

// Start says that the agent of a run has accepted the prompt. ErrStale when the
// run does not hold the attempt any more.
func (s *Store) Start(ctx context.Context, r Run, session, credential, tree string) error {
	k := s.of(r.Turn)
	a, err := s.run(ctx, scriptStart, []string{k.attempt(r.Attempt), k.turn(r.Turn), k.log(r.Turn), k.stream()},
		r.Turn, r.ID, r.fence(), session, credential, tree, origins(turns.VerbStart))
	if err != nil {
		return err
	}
	switch a.word {
	case "started", "already":
		return nil
	case "stale":
		return fmt.Errorf("start %s: %w", r.Attempt, ErrStale)
	}
	return unexpected(scriptStart, a)
}

func (r Run) fence() string { return strconv.FormatInt(r.Fence, 10) }

// Renewal extends one run's lease, with what is new about it.
type Renewal struct {
	Run      Run
	Lease    time.Duration
	Progress turns.Progress
	Session  string
}

// Renewed is the answer to one renewal.
type Renewed struct {
	OK      bool
	Over    bool // the run is past its deadline; its lease is not extended
	Unknown bool // no answer came: the lease may be extended or not
	Asks    int  // requests made to the turn so far
}

// renewAtOnce keeps a call below 1,000 arguments.
const renewAtOnce = 100

// Renew extends the leases of runs in one call per shard and hundred runs, the
// shards side by side: on a Cluster one that is out of reach keeps no other run
// from its lease, and neither does a run whose record something else was written over. The answers stand in the order of the renewals; an error says
// why some are unknown. A run that is none of OK, Over and Unknown does not hold
// its attempt any more.
func (s *Store) Renew(ctx context.Context, renewals []Renewal) ([]Renewed, error) {
	byShard := map[int][]int{}
	for i, r := range renewals {
		shard := s.ShardOf(r.Run.Thread)
		byShard[shard] = append(byShard[shard], i)
	}
	answers := make([]Renewed, len(renewals))
	for i := range answers {
		answers[i].Unknown = true
	}
	var group sync.WaitGroup
	failed := make(chan error, len(renewals))
	for shard, all := range byShard {
		group.Go(func() {
			for part := range slices.Chunk(all, renewAtOnce) {
				err := s.renewPart(ctx, shardKeys(shard), renewals, part, answers)
				if wrongType(err) && len(part) > 1 {
					err = s.renewEach(ctx, shardKeys(shard), renewals, part, answers)
				}
				if err != nil {
					failed <- err
				}
			}
		})
	}
	group.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return answers, errors.Join(errs...)
}

// renewEach renews runs one by one, where one of them made their common call fail.
func (s *Store) renewEach(ctx context.Context, k keys, renewals []Renewal, part []int, answers []Renewed) error {
	var errs []error
	for _, i := range part {
		if err := s.renewPart(ctx, k, renewals, []int{i}, answers); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", renewals[i].Run.Attempt, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) renewPart(ctx context.Context, k keys, renewals []Renewal, part []int, answers []Renewed) error {
	names := []string{k.leases()}
	args := []any{len(part)}
	for _, i := range part {
		r := renewals[i]
		names = append(names, k.attempt(r.Run.Attempt), k.turn(r.Run.Turn), k.thread(r.Run.Thread))
		args = append(args, r.Run.Attempt, r.Run.ID, r.Run.fence(), ms(r.Lease), string(r.Progress), r.Session)
	}
	reply, err := s.call(ctx, scriptRenew, names, args...)
	if err != nil {
		return err
	}
	words, ok := reply.([]any)
	if !ok || len(words) != len(part) {
		return fmt.Errorf("renew: unexpected reply %v", reply)
	}
	for j, i := range part {
		word := fmt.Sprint(words[j])
		asks, fine := strings.CutPrefix(word, "ok:")
		answers[i] = Renewed{OK: fine, Over: word == "over", Asks: number(asks)}
		if word == "stale" && s.rejected != nil {
			s.rejected(scriptRenew.name, word)
		}
	}
	return nil
}
