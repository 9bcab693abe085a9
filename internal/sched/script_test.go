package sched_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/sched"
)

// script runs a scenario, one step a line:
//
//	group G LIMIT...          jobs of group G share these; unnamed: account
//	push JOB TENANT CLASS COST [G]     push JOB: once more
//	next [worst=N] JOB...     each Next yields one of these; "-": nil
//	grant JOB...
//	deny JOB LIMIT UNTIL [own]
//	free LIMIT
//	remove JOB...             and gone JOB...: Remove reports false
//	settle TENANT CLASS DELTA
//	now T
//	wake T                    "-": none
//	victim CLASS JOB          "-": nil
//	blocked JOB LIMIT [own]   "-": by none
//	len N [CLASS N] [TENANT N]
type script struct {
	t      testing.TB
	q      *sched.Queue
	now    time.Duration
	jobs   map[string]*sched.Job
	groups map[string][]string
	line   string
}

func run(t testing.TB, cfg sched.Config, text string) {
	t.Helper()
	s := &script{
		t: t, q: sched.New(cfg), jobs: map[string]*sched.Job{},
		groups: map[string][]string{"": {"account"}},
	}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 0 {
			s.line = fmt.Sprintf("line %d: %s", i, strings.TrimSpace(line))
			s.step(f[0], f[1:])
		}
	}
}

func (s *script) step(op string, args []string) {
	s.t.Helper()
	q := s.q
	switch op {
	case "group":
		s.groups[args[0]] = args[1:]
	case "push":
		s.push(args)
	case "next":
		worst := sched.Classes - 1
		if n, ok := strings.CutPrefix(args[0], "worst="); ok {
			worst, args = int(s.number(n)), args[1:]
		}
		for _, want := range args {
			s.equal(s.name(q.Next(s.now, worst)), want)
		}
	case "grant":
		for _, name := range args {
			q.Granted(s.job(name))
		}
	case "deny":
		q.Denied(s.job(args[0]), args[1], len(args) > 3, s.time(args[2]))
	case "free":
		q.Free(args[0])
	case "remove", "gone":
		for _, name := range args {
			s.equal(q.Remove(s.job(name)), op == "remove")
		}
	case "settle":
		q.Settled(args[0], int(s.number(args[1])), s.number(args[2]))
	case "now":
		s.now = s.time(args[0])
	case "wake":
		at, ok := q.Wake()
		if args[0] == "-" {
			s.equal(ok, false)
		} else {
			s.equal(at, s.time(args[0]))
		}
	case "victim":
		s.equal(s.name(q.Victim(int(s.number(args[0])))), args[1])
	case "blocked":
		limit, own, ok := q.Blocked(s.job(args[0]))
		s.equal(ok, args[1] != "-")
		if ok {
			s.equal(limit, args[1])
			s.equal(own, len(args) > 2)
		}
	case "len":
		s.equal(q.Len(), int(s.number(args[0])))
		for i := 1; i < len(args); i += 2 {
			if class, err := strconv.Atoi(args[i]); err == nil {
				s.equal(q.LenClass(class), int(s.number(args[i+1])))
			} else {
				s.equal(q.LenTenant(args[i]), int(s.number(args[i+1])))
			}
		}
	default:
		s.t.Fatalf("%s: no such step", s.line)
	}
}

func (s *script) push(args []string) {
	s.t.Helper()
	j := s.jobs[args[0]]
	if len(args) > 1 {
		group := ""
		if len(args) > 4 {
			group = args[4]
		}
		shared, ok := s.groups[group]
		if !ok || j != nil {
			s.t.Fatalf("%s: no such group, or job named twice", s.line)
		}
		j = &sched.Job{
			Tenant: args[1], Class: int(s.number(args[2])), Cost: s.number(args[3]),
			Group: group, Shared: slices.Clone(shared), Arrived: s.now, Value: args[0],
		}
		s.jobs[args[0]] = j
	}
	s.q.Push(j)
}

func (s *script) name(j *sched.Job) string {
	if j == nil {
		return "-"
	}
	return j.Value.(string)
}

func (s *script) job(name string) *sched.Job {
	s.t.Helper()
	if s.jobs[name] == nil {
		s.t.Fatalf("%s: no job %s", s.line, name)
	}
	return s.jobs[name]
}

func (s *script) number(text string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatalf("%s: %v", s.line, err)
	}
	return n
}

func (s *script) time(text string) time.Duration {
	s.t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.line, err)
	}
	return d
}

func (s *script) equal(got, want any) {
	s.t.Helper()
	if got != want {
		s.t.Fatalf("%s: got %v", s.line, got)
	}
}
