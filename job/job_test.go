package job_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/paceline-go/paceline/job"
)

func TestPriorityClasses(t *testing.T) {
	for n := range job.Classes {
		p, err := job.PriorityOf(n)
		if err != nil || p.Class() != n || !p.Valid() {
			t.Errorf("PriorityOf(%d) = %v, %v with class %d", n, p, err, p.Class())
		}
	}
	for _, n := range []int{-1, 10, 1 << 20} {
		if _, err := job.PriorityOf(n); !errors.Is(err, job.ErrPriority) {
			t.Errorf("PriorityOf(%d): error %v, want ErrPriority", n, err)
		}
	}
	if job.Priority(11).Valid() {
		t.Error("a priority outside the ten classes is valid")
	}
}

func TestParseClassAndTier(t *testing.T) {
	for text, want := range map[string]job.Priority{"0": job.P0, "1": job.Paid, "9": job.P9} {
		if p, err := job.ParseClass(text); p != want || err != nil {
			t.Errorf("class %q is %v %v", text, p, err)
		}
	}
	for _, text := range []string{"", "10", "-1", "a", " 1", "１"} {
		if p, err := job.ParseClass(text); p != job.Unset || !errors.Is(err, job.ErrPriority) {
			t.Errorf("class %q is %v %v", text, p, err)
		}
	}
	for text, want := range map[string]job.Priority{"paid": job.Paid, "free": job.Free, "background": job.Background} {
		if p, err := job.ParseTier(text); p != want || err != nil {
			t.Errorf("tier %q is %v %v", text, p, err)
		}
	}
	for _, text := range []string{"", "Paid", "1", "gold"} {
		if p, err := job.ParseTier(text); p != job.Unset || !errors.Is(err, job.ErrTier) {
			t.Errorf("tier %q is %v %v", text, p, err)
		}
	}
}

// A missing priority must not outrank an explicit one: BerriAI/litellm#14832.
func TestUnsetPriorityIsFree(t *testing.T) {
	var s job.Spec
	if got := s.Priority.Class(); got != 5 {
		t.Errorf("class of a missing priority is %d, want 5", got)
	}
	if s.Priority.Class() <= job.Paid.Class() {
		t.Error("a missing priority is as urgent as paid")
	}
}

func TestPriorityNames(t *testing.T) {
	for p, want := range map[job.Priority]string{
		job.Unset: "free", job.P0: "p0", job.P1: "paid", job.P5: "free", job.P8: "background", job.P9: "p9",
	} {
		if p.String() != want {
			t.Errorf("%d is called %q, want %q", p, p, want)
		}
	}
}

func TestRetryErrorWraps(t *testing.T) {
	cause := errors.New("429")
	err := fmt.Errorf("call: %w", &job.RetryError{Err: cause})
	var retry *job.RetryError
	if !errors.As(err, &retry) || !errors.Is(err, cause) {
		t.Errorf("%v does not unwrap to its cause", err)
	}
	if got := (&job.RetryError{}).Error(); got == "" {
		t.Error("a RetryError without a cause says nothing")
	}
}
