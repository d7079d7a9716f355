package model

import (
	"math/bits"

	"rota/turns"
)

// operatorSteps are a person's commands.
func (m *model) operatorSteps(pre *state) {
	if pre.Ops == 0 {
		return
	}
	command := func(op Op, what string, c write) {
		if m.bound.Cmds != 0 && m.bound.Cmds&op == 0 {
			return
		}
		c.By = firstCommand + 8*pre.Ops + uint8(bits.TrailingZeros32(uint32(op)))
		m.send(pre, "operator", what, c, func(x *step, _ answer) {
			x.s.Ops--
			x.act = true
		}, nil)
	}
	t, n, a := pre.current()
	if a == nil {
		last := pre.Store.Counter
		if pre.Store.Retried == 0 && last == 1 && statusOf[pre.Store.Status] == turns.NeedsHuman && pre.turn(last).State != completed {
			command(Retry, "retries", write{Verb: vOpen, Turn: last})
		}
		return
	}
	u := pre.turn(t)
	command(Cancel, "", write{Verb: vCancel, Turn: t, Attempt: n, State: cancelled, Keep: true})
	if n < maxAttempts-2 {
		for _, s := range seats[roleOf[u.Role]].Services {
			if to := numberOf(serviceOf, s); to != a.Service {
				command(Handoff, "hands off:", write{Verb: vDelegate, Turn: t, Attempt: n, Service: to, Cause: numberOf(causeOf, turns.CauseOperator), Keep: true})
			}
		}
		if held(a.State) {
			command(Restart, "restarts:", write{Verb: vReplace, Turn: t, Attempt: n, Service: a.Service, Cause: numberOf(causeOf, turns.CauseRestart), Keep: true})
		}
	}
	if pre.Store.Messages == 0 {
		command(Say, "", write{Verb: vSay})
	}
}
