package turns

import "fmt"

// Role is the part a turn plays in a paired task. It is given when the turn is
// opened and never inferred; the zero value is invalid.
type Role string

// The three roles.
const (
	Owner    Role = "owner"
	Reviewer Role = "reviewer"
	Arbiter  Role = "arbiter"
)

// Roles lists the valid roles in the order in which the documentation names them.
var Roles = []Role{Owner, Reviewer, Arbiter}

// Valid reports whether r is one of the three roles.
func (r Role) Valid() bool { return r == Owner || r == Reviewer || r == Arbiter }

// ParseRole returns the role named s, or an error for any other word. There is
// no default: an unknown role is never an owner.
func ParseRole(s string) (Role, error) {
	if r := Role(s); r.Valid() {
		return r, nil
	}
	return "", fmt.Errorf("unknown role %q (owner, reviewer or arbiter)", s)
}

// Intent is why a turn exists.
type Intent string

// The intents; each has exactly one role.
const (
	Work      Intent = "work"
	FollowUp  Intent = "follow-up"
	Finalize  Intent = "finalize"
	Review    Intent = "review"
	Arbitrate Intent = "arbitrate"
)

var intentRole = map[Intent]Role{
	Work: Owner, FollowUp: Owner, Finalize: Owner,
	Review:    Reviewer,
	Arbitrate: Arbiter,
}

// Intents lists the valid intents.
var Intents = []Intent{Work, FollowUp, Finalize, Review, Arbitrate}

// Role returns the one role that takes turns of this intent. The answer for an
// unknown intent is the invalid zero role.
func (i Intent) Role() Role { return intentRole[i] }

// Valid reports whether i is a known intent.
func (i Intent) Valid() bool { return intentRole[i] != "" }

// FirstIntent returns the intent of a turn that a person opens for a role
// without saying why: work, review or arbitrate.
func FirstIntent(r Role) (Intent, error) {
	switch r {
	case Owner:
		return Work, nil
	case Reviewer:
		return Review, nil
	case Arbiter:
		return Arbitrate, nil
	}
	return "", fmt.Errorf("no intent for role %q", r)
}

// CheckRole fails closed: it returns an error unless role and intent are both
// known and belong together.
func CheckRole(r Role, i Intent) error {
	switch {
	case !r.Valid():
		return fmt.Errorf("invalid role %q", r)
	case !i.Valid():
		return fmt.Errorf("invalid intent %q", i)
	case i.Role() != r:
		return fmt.Errorf("intent %s belongs to the %s, not to the %s", i, i.Role(), r)
	}
	return nil
}
