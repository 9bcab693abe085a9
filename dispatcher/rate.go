package dispatcher

import (
	"math"
	"time"
)

// rate is what the process was lately granted, in cost per second, with a
// half-life of ten seconds. Only times count in which jobs were kept waiting for
// lack of budget, ledger or workers: an idle hour does not make the next job wait,
// and one in which all was granted at once does not say how much there is.
type rate struct {
	sum  float64 // decayed cost
	over float64 // decayed seconds
	at   time.Duration
	busy bool // jobs are kept waiting
}

const rateDecay = math.Ln2 / 10 // per second

// look says whether something was short just now, and whether anybody waits.
func (r *rate) look(now time.Duration, short, waiting bool) {
	r.busy = r.busy && waiting
	r.pass(now)
	r.busy = r.busy || short && waiting
}

// pass lets the time until now go by.
func (r *rate) pass(now time.Duration) {
	if !r.busy {
		r.at = now
		return
	}
	if now-r.at < time.Millisecond {
		return // it adds up
	}
	dt := (now - r.at).Seconds()
	r.at = now
	k := math.Exp(-dt * rateDecay)
	r.sum *= k
	r.over = r.over*k + (1-k)/rateDecay
}

func (r *rate) granted(cost int64) {
	if r.busy {
		r.sum += float64(cost)
	}
}

// wait is how long the cost ahead takes; ok is false when too little was granted
// to judge by.
func (r *rate) wait(ahead int64) (d time.Duration, ok bool) {
	if r.sum <= 0 || r.over < 0.5 {
		return 0, false
	}
	s := float64(ahead) * r.over / r.sum
	return time.Duration(min(s, 86400) * float64(time.Second)), true
}
