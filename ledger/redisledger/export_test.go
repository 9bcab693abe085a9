package redisledger

import "strings"

// fixed are the scripts that FixClock gives to a ledger.
var fixed = func() *scripts {
	const clock = "redis.call('TIME')"
	if strings.Count(windowLua, clock) != 1 {
		panic("window.lua must read the time once")
	}
	return compile(strings.Replace(windowLua, clock, "{ 0, redis.call('GET', KEYS[#KEYS] .. ':clock') }", 1))
}()

// FixClock makes the scripts of l take the time, in microseconds, from the key that it
// returns, instead of from the server. Everything else is what production runs.
func FixClock(l *Ledger) (key string) {
	l.scripts = fixed
	return l.line[len(l.line)-1] + ":clock"
}
